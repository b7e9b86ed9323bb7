"""Train on bad input, for test_bad_input.py, as a program that has never heard of tfmuster's errors.

Usage: bad_input.py CASE FOLDER. Only the last error of a case ends the program; the ones before are printed.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras

import tfmuster

case, folder = sys.argv[1], Path(sys.argv[2])
index = strategy.cluster_resolver.task_id
rng = np.random.default_rng(1)
x, y = rng.normal(size=(320, 4)).astype("float32"), rng.integers(0, 3, 320)


def say(*words):
    # Both workers write to one pipe, so write a line in one piece.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def fit(data, shape=(4,), **options):
    with strategy.scope():
        model = keras.Sequential([keras.Input(shape), keras.layers.Flatten(), keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, verbose=0, **options)


def refused(name, function):
    begin = time.monotonic()
    try:
        function()
    except tfmuster.TfmusterError as error:
        say("refused", name, error.fields["reason"], error.fields.get("path"), error.fields.get("row"))
        assert time.monotonic() - begin < 10
    else:
        say("accepted", name)


def batches(number, seconds=0.0):
    for step in range(number):
        time.sleep(seconds)
        yield x[step % 10 * 32 : step % 10 * 32 + 32], y[step % 10 * 32 : step % 10 * 32 + 32]


def files(pattern, reader):
    return tfmuster.file_batches(str(folder / pattern), reader, 8, seed=1)


def bad_files():
    features = {"x": tf.io.FixedLenFeature([4], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    refused("records", lambda: files("*.tfrecord", tfmuster.tfrecord_rows(features, label="y")))
    if list(folder.glob("*.parquet")):
        refused("parquet", lambda: files("*.parquet", tfmuster.parquet_rows("y")))
    images = tfmuster.file_batches(folder / "images", tfmuster.image_rows((4, 4)), 8, seed=2)
    say("cause at", time.time())
    fit(images, (4, 4, 3))


def bad_folder():
    images = keras.utils.image_dataset_from_directory(
        folder / "images", image_size=(4, 4), batch_size=8, verbose=False
    )
    say("cause at", time.time())
    fit(images, (4, 4, 3))


def short_line():
    say("cause at", time.time())
    fit(files("*.csv", tfmuster.csv_rows("y")))


def bad_rows():
    refused("rows", lambda: fit(tf.data.Dataset.from_tensor_slices((x[index::2], y[index::2])).batch(32)))
    refused("generator", lambda: fit(batches(25), steps_per_epoch=10, epochs=4))
    refused("sizes", of_two_sizes)
    refused("states", states_of_rows)
    refused("second pass", lambda: fit(batches(5), epochs=2))
    wrong = y.copy()
    wrong[4 * 32 + 30] = 3  # a row of worker 1
    data = tf.data.Dataset.from_tensor_slices((x, wrong)).batch(32)
    say("cause at", time.time())
    fit(data)


def ends_early():
    def generator():
        yield from batches(40 if index == 0 else 25, 0.02)
        say("cause at", time.time())

    fit(generator(), steps_per_epoch=30)


class OwnStep(keras.Model):
    """A model whose step a program of the user has written."""

    def __init__(self, loss_of):
        super().__init__()
        self.out, self.loss_of = keras.layers.Dense(4), loss_of

    def call(self, x):
        return self.out(x)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.loss_of(self, data) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def fit_own_step(loss_of, data):
    with strategy.scope():
        model = OwnStep(loss_of)
        model.compile("sgd")
    model.fit(data, verbose=0)


def of_two_sizes():
    """Two workers have half of 12 rows each, but not of 3."""
    parts = [tf.data.Dataset.from_tensor_slices(x[: 2 * size]).batch(size) for size in (12, 3)]
    fit_own_step(lambda model, data: model(tf.concat(data, 0)), tf.data.Dataset.zip(tuple(parts)))


def states_of_rows():
    """A layer keeps a state for each row of the global batch."""
    with strategy.scope():
        inputs = keras.Input((1, x.shape[1]), batch_size=32)
        outputs = keras.layers.Dense(3)(keras.layers.GRU(2, stateful=True)(inputs))
        model = keras.Model(inputs, outputs)
        model.compile("sgd", "mse")
    model.fit(x[:, None], y, batch_size=32, verbose=0)


def whole_batch():
    """A published example has the size of its batches written into its step."""
    say("cause at", time.time())
    data = tf.data.Dataset.from_tensor_slices(x).batch(32, drop_remainder=True)
    fit_own_step(lambda model, data: model(data * tf.random.uniform((32, 1))), data)


{
    "size": whole_batch,
    "files": bad_files,
    "folder": bad_folder,
    "line": short_line,
    "rows": bad_rows,
    "ends": ends_early,
}[case]()
say("trained")
