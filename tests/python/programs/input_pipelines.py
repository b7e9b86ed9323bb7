"""Train on input of many kinds, and write the weights and what was read, for test_input_pipelines.py.

Usage: input_pipelines.py FOLDER OUT; FOLDER has images/, texts/, sounds/, records/, tables/ and bad/. Without
TF_CONFIG it is one process without a strategy.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

folder, out = map(Path, sys.argv[1:])
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")

import keras
import tensorflow as tf

from tfmuster.errors import DataError
from tfmuster.keras_compat.process import PROCESS, listen

told, found, decoded = [], {}, []
listen(lambda about, text, **fields: told.append(text))
rng = np.random.default_rng(0)
X, Y = rng.random((103, 6)).astype("float32"), rng.integers(0, 3, 103)
IMAGES = sorted(map(str, folder.glob("images/*/*.png")))


def bytes_read():
    return int(dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())["rchar"])


def fit(name, data, shape=(6,), model=None, **options):
    keras.utils.set_random_seed(1)
    told.clear()
    PROCESS.told.clear()
    with strategy.scope():
        if model is None:
            model = keras.Sequential(
                [
                    keras.Input(shape),
                    keras.layers.Flatten(),
                    keras.layers.Rescaling(0.01),
                    keras.layers.Dense(3),
                ]
            )
        model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    begin = bytes_read()
    history = model.fit(data, verbose=0, shuffle=False, **options)
    found[name] = {"loss": history.history["loss"], "told": told[:], "read": bytes_read() - begin}
    np.savez(out / f"{name}-{worker}.npz", *model.get_weights())
    return model


def refused(name, function):
    try:
        function()
    except DataError as error:
        found[name] = {**error.to_dict(), "text": str(error)}
    else:
        found[name] = None


def slices():
    return tf.data.Dataset.from_tensor_slices((X, Y))


def read_image(path):
    return tf.image.resize(tf.io.decode_png(tf.io.read_file(path), channels=3), (8, 8))


def by_file(data):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    return data.with_options(options)


tf.random.set_seed(3)
tutorial = slices().cache().repeat().shuffle(10000).batch(32).prefetch(4)
list(tutorial.take(1))
fit("tutorial", tutorial, steps_per_epoch=5, epochs=3)
tf.random.set_seed(4)
fit("mapped", slices().map(lambda x, y: (x * 2, y)).shuffle(50).batch(20), epochs=3)
fit("class_weight", slices().shuffle(103, seed=1).batch(20), epochs=2, class_weight={0: 1.0, 1: 2.0, 2: 3.0})
noisy = slices().map(lambda x, y: (x + tf.random.uniform([6], seed=1), y)).batch(25)
fit("random", noisy, epochs=2)
directory = {"image_size": (8, 8), "batch_size": 8, "seed": 3, "verbose": False}
pictures = keras.utils.image_dataset_from_directory(folder / "images", **directory)
fit("directory", pictures, (8, 8, 3), epochs=2)
folders = {"batch_size": 8, "seed": 3, "verbose": False}
texts = keras.utils.text_dataset_from_directory(folder / "texts", **folders)
codes = texts.map(lambda text, y: (tf.io.decode_raw(text, tf.uint8, fixed_length=6), y))
letters = codes.map(lambda code, y: (tf.cast(code, tf.float32), y))
fit("texts", letters, epochs=2)
sounds = keras.utils.audio_dataset_from_directory(folder / "sounds", output_sequence_length=6, **folders)
fit("sounds", sounds, (6, 1), epochs=2)
windows = keras.utils.timeseries_dataset_from_array(
    X[:, 0], Y[5:], sequence_length=6, batch_size=8, shuffle=True, seed=3
)
fit("windows", windows, epochs=2)
labels = np.arange(len(IMAGES)) % 3
paths = tf.data.Dataset.from_tensor_slices((IMAGES, labels)).map(lambda path, y: (read_image(path), y))
fit("file_policy", by_file(paths.batch(8)), (8, 8, 3), epochs=2)
if config:
    odd = slices().filter(lambda x, y: y > 0).batch(20)
    refused("file_policy_in_memory", lambda: fit("none", by_file(odd)))

FEATURES = {"x": tf.io.FixedLenFeature([6], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
for count in (8, 7, 1):
    files = sorted(folder.glob(f"records/{count}-*.tfrecord"))
    records = tfmuster.tfrecord_rows(FEATURES, label="y")
    fit(f"records_{count}", tfmuster.file_batches(files, records, 20, seed=1))
tables = tfmuster.file_batches(
    str(folder / "tables" / "*.csv"), tfmuster.csv_rows("y"), 20, seed=1, repeated=True
)
fit("csv", tables, steps_per_epoch=tables.steps, epochs=3)
shown = tfmuster.file_batches(folder / "images", tfmuster.image_rows((8, 8)), 8, seed=2)
model = fit("images", shown, (8, 8, 3), epochs=2)


class Steps(keras.callbacks.Callback):
    """Ends the training at its fourth step, as a crash would."""

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == 8:
            raise KeyboardInterrupt


def resuming(*more):
    read = tfmuster.csv_rows("y")
    data = tfmuster.file_batches(str(folder / "tables" / "*.csv"), read, 20, seed=1, repeated=True)
    saved = tfmuster.checkpoint_callback(out / "checkpoints", every=2)
    fit("resumed", data, steps_per_epoch=data.steps, epochs=3, callbacks=[saved, *more])


try:
    resuming(Steps())
except KeyboardInterrupt:
    resuming()
(out / f"found-{worker}.json").write_text(json.dumps(found, default=str))
bad = tfmuster.file_batches(folder / "bad", tfmuster.image_rows((8, 8)), 8, seed=2)
print("now", flush=True)
fit("unreadable", bad, (8, 8, 3))
