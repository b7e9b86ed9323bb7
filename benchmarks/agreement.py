"""What the comparisons of the workers cost, against the same job without them.

Usage: agreement.py [--turns 7] [--models small cnn resnet50]

Two workers on this machine train. Calls of `fit` with and without the comparison of what the call means, of
the values of all weights at its start and at each end of an epoch, and of the rows that were read, take turns
in one process. The table has the medians over the turns, of the chief: the milliseconds of a call before its
first step, and the ratio of the seconds of an epoch, with the lowest and the highest of the turns. It ends
with 1 if a ratio is above 1.1.
"""

from __future__ import annotations

import argparse

from turns import median, range_of, turns_of

PROGRAM = '''
import json, sys, time
import numpy as np
import tfmuster

name, turns = sys.argv[1], int(sys.argv[2])
strategy = tfmuster.strategy("multi_worker_mirrored")
import keras
import tensorflow as tf
from tfmuster.keras_compat import rows
from tfmuster.keras_compat.agreement import comparison
from tfmuster.keras_compat.steps import callbacks

rng = np.random.default_rng(0)


def small():
    x, y = rng.normal(size=(6400, 20)).astype("float32"), rng.integers(0, 10, 6400)
    return [keras.Input((20,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)], x, y, 64


def cnn():
    x, y = rng.normal(size=(12800, 28, 28, 1)).astype("float32"), rng.integers(0, 10, 12800)
    layers = [keras.Input((28, 28, 1))]
    for filters in (32, 64):
        layers += [keras.layers.Conv2D(filters, 3, activation="relu"), keras.layers.MaxPooling2D()]
    return [*layers, keras.layers.Flatten(), keras.layers.Dense(10)], x, y, 64


def resnet50():
    x, y = rng.normal(size=(480, 64, 64, 3)).astype("float32"), rng.integers(0, 10, 480)
    options = dict(include_top=False, weights=None, input_shape=(64, 64, 3), pooling="avg")
    body = keras.applications.ResNet50(**options)
    return [body, keras.layers.Dense(10)], x, y, 16


with strategy.scope():
    layers, x, y, batch = {"small": small, "cnn": cnn, "resnet50": resnet50}[name]()
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Watch(keras.callbacks.Callback):
    """Notes the moments at which epochs begin, and the next one, or the end, comes."""

    needs_batches = False

    def on_train_begin(self, logs=None):
        self.begin, self.moments = time.perf_counter(), []

    def on_epoch_begin(self, epoch, logs=None):
        self.moments.append(time.perf_counter())

    def on_train_end(self, logs=None):
        self.moments.append(time.perf_counter())


def fit(epochs=2):
    # Rows that every worker computes: those of a filter have no addresses.
    data = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda a, _: tf.size(a) > 0).batch(batch)
    watch, called = Watch(), time.perf_counter()
    model.fit(data, epochs=epochs, verbose=0, callbacks=[watch])
    # The first epoch builds the graph.
    return watch.begin - called, np.diff(watch.moments)[-1]


places = [
    (comparison, "meaning_of", lambda call: {}),
    (comparison, "checksum_of", lambda model: ""),
    (callbacks, "agree_on_state", lambda model, epoch: None),
    (rows, "sums_of_rows", lambda batch: tf.zeros(3, tf.float64)),
]
stock = [getattr(module, what) for module, what, _ in places]
fit(2)
for turn in range(turns):
    taken = {}
    for compares in (True, False) if turn % 2 else (False, True):
        for (module, what, without), function in zip(places, stock):
            setattr(module, what, function if compares else without)
        taken[compares] = fit()
    if tfmuster.current_task().is_chief:
        print("TURN", json.dumps([taken[True], taken[False]]), flush=True)
'''


#: The highest ratio: a machine in use varies by some percent. Goals: 1.01 for cnn, 1.02 for resnet50.
_MOST = 1.1


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--models", nargs="+", default=["small", "cnn", "resnet50"])
    options = parser.parse_args()
    print(
        "| model | a call: ms without | ms with | an epoch: s without | with / without (lowest to highest) |"
    )
    print("|---|---|---|---|---|")
    slow = False
    for model in options.models:
        turns = turns_of(PROGRAM, model, options.turns)
        calls = [1000 * median([turn[which][0] for turn in turns]) for which in (1, 0)]
        ratios = [compared[1] / plain[1] for compared, plain in turns]
        epoch = median([plain[1] for _, plain in turns])
        print(f"| {model} | {calls[0]:.1f} | {calls[1]:.1f} | {epoch:.2f} | {range_of(ratios)} |", flush=True)
        slow = slow or median(ratios) > _MOST
    raise SystemExit(int(slow))


if __name__ == "__main__":
    main()
