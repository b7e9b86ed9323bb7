"""Horovod's example, as docs/coming-from/horovod.md changes it, with other data and a small model."""

import sys

import tensorflow as tf

import tfmuster
from tfmuster.training.learning_rates import scaled_learning_rate

strategy = tfmuster.strategy("multi_worker_mirrored")
size = strategy.num_replicas_in_sync

digits = tfmuster.synthetic(train=2048, test=64)
images = digits.x_train[..., None].astype("float32") / 255
data = tf.data.Dataset.from_tensor_slices((images, digits.y_train))
data = data.repeat().shuffle(2048, seed=1).batch(32 * size)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input(images.shape[1:]),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
    rate = scaled_learning_rate(0.001, size, warmup_steps=8)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=tf.keras.optimizers.Adam(rate), metrics=["accuracy"])

callbacks = [tf.keras.callbacks.ModelCheckpoint(f"{sys.argv[1]}/checkpoint-{{epoch}}.keras")]
model.fit(data, steps_per_epoch=24 // size, callbacks=callbacks, epochs=2, verbose=2)
print("size", size, "weights", float(model.get_weights()[-1].sum()))
