"""A deeper network on two workers, one terminal each, with an input pipeline of tf.data.

python examples/two_workers.py --index 0      # in the first terminal
python examples/two_workers.py --index 1      # in the second
"""

import argparse

import tfmuster

parser = argparse.ArgumentParser()
parser.add_argument("--index", type=int, required=True, help="of this worker, 0 or 1")
parser.add_argument("--workers", nargs=2, default=["localhost:5050", "localhost:5051"], metavar="HOST:PORT")
parser.add_argument("--dataset", help="synthetic, or a path; default: MNIST")
parser.add_argument("--epochs", type=int, default=50)
parser.add_argument("--steps-per-epoch", type=int, default=50)
arguments = parser.parse_args()

tfmuster.use_tf_config(tfmuster.Cluster(worker=arguments.workers).task("worker", arguments.index))
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

PER_WORKER = 50
digits = tfmuster.synthetic() if arguments.dataset == "synthetic" else tfmuster.mnist(arguments.dataset)


def scale(image, label):
    return tf.cast(image, tf.float32)[..., tf.newaxis] / 255, label


# Global batches; each worker trains on its own half of each of them. The seed of the shuffling must be the
# same on both workers, which tfmuster sees to where none is given.
train = (
    tf.data.Dataset.from_tensor_slices((digits.x_train, digits.y_train))
    .map(scale)
    .repeat()
    .shuffle(1000)
    .batch(PER_WORKER * strategy.num_replicas_in_sync)
)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        loss="sparse_categorical_crossentropy",
        optimizer=keras.optimizers.Adam(learning_rate=0.001, amsgrad=True),
        metrics=["accuracy"],
    )

history = model.fit(
    train, epochs=arguments.epochs, steps_per_epoch=arguments.steps_per_epoch, shuffle=False, verbose=2
)
print(f"accuracy in the last epoch: {history.history['accuracy'][-1]:.4f}")
