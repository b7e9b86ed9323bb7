"""Train models without a strategy, as users write them: plain.py OUT [SAVED_MODEL [applications]]."""

import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

tf.config.threading.set_inter_op_parallelism_threads(2)  # impossible after TensorFlow has started
tf.constant(1.0)  # TensorFlow is in use before Keras is imported
import keras
from keras import layers

out = Path(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(70, 6)).astype("float32")
y = np.tanh(x.sum(axis=1, keepdims=True))
found = {}


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.last = layers.Dense(5, "tanh"), layers.Dense(1)

    def call(self, inputs):
        return self.last(self.first(inputs))


def functional():
    inputs = keras.Input((6,))
    both = layers.concatenate([layers.Dense(3, "tanh")(inputs), layers.Dense(3, "sigmoid")(inputs)])
    return keras.Model(inputs, layers.Dense(1)(both))


def trained(name, make, data=None, **options):
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    model = make()
    if not model.compiled:
        model.compile(keras.optimizers.Adam(0.01), "mse")
    if data is None:
        model.fit(x, y, batch_size=16, epochs=3, verbose=0, **options)
    else:
        model.fit(data, epochs=3, verbose=0, **options)
    for index, weight in enumerate(model.get_weights()):
        found[f"{name} {index}"] = weight
    found[f"{name} steps"] = int(model.optimizer.iterations)
    return model


model = trained(
    "sequential",
    lambda: keras.Sequential([layers.Dense(5, "tanh"), layers.Dense(1)]),
    validation_split=0.2,
)
model.save(out / "model.keras")
import tensorflow.compat.v1  # replaces the module tf.compat.v1

found["loss"] = model.evaluate(x, y, batch_size=16, verbose=0)
found["predictions"] = model.predict(x, verbose=0)
trained("functional", functional)
trained("subclassed", Own)
if len(sys.argv) > 2:
    trained("loaded", lambda: keras.models.load_model(sys.argv[2]))
batches = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(70, seed=1).batch(16).prefetch(2)
trained("tf.data", functional, batches)

model = functional()
model.compile("sgd", "mse")
for _ in range(3):
    model.train_on_batch(x, y)
found["train_on_batch"] = model.get_weights()[0]
try:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
except Exception as error:
    print("loop:", error.fields["reason"], "|", error.found)

if "applications" in sys.argv:
    # The first layers of it, because TensorFlow needs half a minute to trace all of them.
    whole = keras.applications.MobileNet((32, 32, 3), alpha=0.25, weights=None, include_top=False)
    pooled = layers.GlobalAveragePooling2D()(whole.get_layer("conv_pw_1_relu").output)
    net = keras.Model(whole.input, layers.Dense(2, "softmax")(pooled))
    net.compile("sgd", "sparse_categorical_crossentropy")
    images, labels = rng.normal(size=(12, 32, 32, 3)).astype("float32"), np.arange(12) % 2
    net.fit(images, labels, batch_size=4, epochs=1, verbose=0)
    found["applications steps"] = net.optimizer.iterations.numpy()
    for index, weight in enumerate(net.get_weights()):
        found[f"applications {index}"] = weight

own = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else None
print("same strategy:", own is not None and own is tf.distribute.get_strategy())
if os.environ.get("TFMUSTER_IS_CHIEF", "1") == "1":
    (out / "chief.txt").open("a").write("written\n")
np.savez(out / f"found-{os.environ.get('TFMUSTER_IS_CHIEF', 'alone')}.npz", **found)
