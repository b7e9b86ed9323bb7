"""Train with --scale-batch, print the updates of each `fit`, then make other strategies: scaled.py."""

import os
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

x = np.random.default_rng(0).normal(size=(100, 6)).astype("float32")
y = np.tanh(x.sum(axis=1, keepdims=True))
#: As one process is to train with them on its own, when they are multiplied by the two workers.
times = 1 if "TF_CONFIG" in os.environ else 2


def attempt(name, fit):
    keras.utils.set_random_seed(7)
    model = keras.Sequential([layers.Dense(5, "tanh"), layers.Dense(1)])
    model.compile("sgd", "mse")
    try:
        fit(model)
    except Exception as error:
        if not hasattr(error, "fields"):
            raise
        print(name, "refused:", error.fields["reason"], "|", error.found, flush=True)
    else:
        print(name, "updates:", int(model.optimizer.iterations.numpy()), flush=True)
        total = sum(float(np.abs(weight).sum()) for weight in model.get_weights())
        print(f"{name} weights: {total:.4f}", flush=True)


def batches(drop_remainder=False):
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8 * times, drop_remainder=drop_remainder)
    return data.map(lambda x, y: (x, y)).prefetch(2)


def files(folder):
    """A data set whose rows are in files of 100 kB, one each."""
    paths = [Path(folder, str(row)) for row in range(len(x))]
    for path, row in zip(paths, x, strict=True):
        path.write_bytes(row.tobytes() + bytes(100_000))
    data = tf.data.Dataset.from_tensor_slices(([str(path) for path in paths], y))
    data = data.map(lambda path, y: (tf.io.decode_raw(tf.io.read_file(path), tf.float32)[:6], y))
    return data.map(lambda x, y: (tf.ensure_shape(x, [6]), y)).batch(8 * times).prefetch(2)


def own():
    """Every second row on each of two workers: both together have the rows of `batches`."""
    if times == 2:
        return batches()
    import tfmuster

    index = tfmuster.current_task().index
    return tfmuster.own_rows(x[index::2], y[index::2], batch_size=8)


def bytes_read():
    return int(dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())["rchar"])


def rows():
    while True:
        yield x[:8], y[:8]


attempt("default", lambda model: model.fit(x, y, verbose=0, batch_size=None if times == 1 else 64))
attempt("positional", lambda model: model.fit(x, y, 8 * times, 2, 0))
attempt("tf.data", lambda model: model.fit(batches(), verbose=0))
attempt("dropped", lambda model: model.fit(batches(drop_remainder=True), verbose=0))
attempt("own", lambda model: model.fit(own(), verbose=0))
with tempfile.TemporaryDirectory() as folder:
    data, begin = files(folder), bytes_read()
    attempt("files", lambda model: model.fit(data, verbose=0))
    print(f"share of the files: {(bytes_read() - begin) / 10e6:.2f}", flush=True)
if times == 1:
    attempt("generator", lambda model: model.fit(rows(), steps_per_epoch=2, verbose=0))
    unbatched = batches().unbatch()
    attempt("unbatched", lambda model: model.fit(unbatched, verbose=0))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    for name, strategy in {
        "mirrored": tf.distribute.MirroredStrategy,
        "v1-mirrored": tf.compat.v1.distribute.MirroredStrategy,
        "central": tf.distribute.experimental.CentralStorageStrategy,
        "servers": lambda: tf.distribute.ParameterServerStrategy(resolver),
        "v1-servers": tf.compat.v1.distribute.experimental.ParameterServerStrategy,
        "v1-workers": tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
        "one": lambda: tf.distribute.OneDeviceStrategy("CPU:0"),
    }.items():
        attempt(name, lambda model, strategy=strategy: strategy())
    print("same:", tf.distribute.experimental.MultiWorkerMirroredStrategy() is tf.distribute.get_strategy())
