"""Train outside of a multi-worker strategy in every way, and print what became of it: alone.py [imports]."""

import sys

import numpy as np
import tensorflow as tf

if "imports" in sys.argv:
    import tfmuster

    tfmuster.current_task()
x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def made(name="model"):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))], name=name)
    model.compile("sgd", "mse")
    return model


def loop(model):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply_gradients(zip(grads, model.trainable_variables))


def attempt(way, train):
    try:
        train()
    except Exception as error:
        fields = getattr(error, "fields", {})
        print(way, "refused:", fields.get("reason"), "|", str(error).splitlines()[1].strip(), flush=True)
    else:
        print(way, "trained", flush=True)


model = made()
before = model.get_weights()
model.evaluate(x, y, verbose=0)
model.predict(x, verbose=0)
attempt("fit", lambda: model.fit(x, y, verbose=0))
attempt("train_on_batch", lambda: model.train_on_batch(x, y))
attempt("loop", lambda: loop(model))
attempt("function", lambda: tf.function(lambda: loop(model))())
with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    mirrored = made("mirrored")
attempt("mirrored", lambda: mirrored.fit(x, y, verbose=0))
same = all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
print(type(model).__module__.partition(".")[0], "unchanged" if same else "changed", flush=True)
model.fit(x, y, verbose=0)
