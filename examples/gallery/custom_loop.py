"""Fit a curve with a training loop that you write yourself: its mean, and how uncertain it is.

python examples/gallery/custom_loop.py                  # one process
tfmuster launch -n 2 examples/gallery/custom_loop.py    # two workers
"""

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if tfmuster.current_task() else "default")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

keras.utils.set_random_seed(1)

POINTS, BATCH, EPOCHS = 2_000, 100, 10

draw = np.random.default_rng(0)
x = draw.uniform(-3, 3, (POINTS, 1)).astype("float32")
y = (np.sin(2 * x) + draw.normal(size=x.shape) * (0.1 + 0.1 * abs(x))).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(POINTS, seed=2).batch(BATCH)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(64, "tanh"),
            keras.layers.Dense(64, "tanh"),
            keras.layers.Dense(2),
        ]
    )
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)


def train(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        mean, log_width = tf.split(model(x, training=True), 2, axis=1)
        surprise = log_width + 0.5 * ((y - mean) / tf.exp(log_width)) ** 2
        # The sum over this worker's rows, divided by the rows of all workers: gradients of workers add up.
        loss = tf.reduce_sum(surprise) / BATCH
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


step = tfmuster.distributed_step(strategy, train, reduce="sum")
for _ in range(EPOCHS):
    batches = iter(strategy.experimental_distribute_dataset(data))
    losses = [float(step(batches)) for _ in range(POINTS // BATCH)]
print(f"loss {np.mean(losses):.4f}")
