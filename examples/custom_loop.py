"""A training loop of your own, under any strategy: what `fit` does, step by step.

python examples/custom_loop.py [DATASET]                              # one process
tfmuster launch -n 2 examples/custom_loop.py [DATASET]                # two workers
"""

import sys

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if tfmuster.current_task() else "default")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

GLOBAL_BATCH, STEPS = 128, 100
dataset = sys.argv[1] if len(sys.argv) > 1 else None
digits = tfmuster.synthetic() if dataset == "synthetic" else tfmuster.mnist(dataset)
batches = tfmuster.batches(
    digits.x_train, digits.y_train, GLOBAL_BATCH, seed=0, repeated=True, strategy=strategy
)

with strategy.scope():
    model = tfmuster.mnist_model("cnn", seed=0)
    optimizer = keras.optimizers.Adam(0.001)
    optimizer.build(model.trainable_variables)


def train(batch):
    images, labels = batch
    with tf.GradientTape() as tape:
        losses = keras.ops.sparse_categorical_crossentropy(
            labels, model(images, training=True), from_logits=True
        )
        # The sum over this replica's rows, over the rows of all: the replicas' gradients add up.
        loss = tf.reduce_sum(losses) / GLOBAL_BATCH
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


step = tfmuster.distributed_step(strategy, train, reduce="sum")
iterator = iter(strategy.experimental_distribute_dataset(batches))
for number in range(1, STEPS + 1):
    loss = step(iterator)
    if number % 20 == 0:
        print(f"step {number}: loss {float(loss):.4f}", flush=True)
