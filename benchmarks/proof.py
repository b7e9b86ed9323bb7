"""What the proof of the first step costs.

Usage: proof.py [--turns 5] [--models cnn resnet50]

Two workers on this machine train 64 digits, or 16 images of 64 x 64, in a step. First calls of `fit` with and
without the proof, each of which traces its step anew, take turns in one process, and so do epochs of later
steps. The table has the medians over the turns, of the chief. It ends with 1 if a proof takes longer than 3 s
for the cnn or 10 s for ResNet50, or if later steps take more than 1.05 times as long.
"""

from __future__ import annotations

import argparse

from turns import median, range_of, turns_of

PROGRAM = """
import json, os, sys, time
import numpy as np
import tfmuster

name, turns = sys.argv[1], int(sys.argv[2])
strategy = tfmuster.strategy("multi_worker_mirrored")
import keras

rng = np.random.default_rng(0)
size, channels, batch, steps = {"cnn": (28, 1, 64, 60), "resnet50": (64, 3, 16, 6)}[name]
x = rng.normal(size=(batch * steps, size, size, channels)).astype("float32")
y = rng.integers(0, 10, len(x))
with strategy.scope():
    if name == "cnn":
        layers = [keras.Input((28, 28, 1)), keras.layers.Conv2D(32, 3, activation="relu")]
        layers += [keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dense(64, "relu")]
    else:
        options = dict(include_top=False, weights=None, input_shape=(64, 64, 3), pooling="avg")
        layers = [keras.applications.ResNet50(**options)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def first_and_later(how):
    os.environ["TFMUSTER_VERIFY"] = how
    model.train_function = None
    seconds = []
    for rows in (batch, len(x), len(x)):
        begin = time.perf_counter()
        model.fit(x[:rows], y[:rows], batch_size=batch, shuffle=False, verbose=0)
        seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[2]


HOW = ("always", "never")
for turn in range(turns + 1):
    taken = {how: first_and_later(how) for how in (HOW if turn % 2 else HOW[::-1])}
    # The first turn builds the model, too.
    if turn and tfmuster.current_task().is_chief:
        print("TURN", json.dumps([taken[how] for how in HOW]), flush=True)
"""

#: The longest proof of each model, in seconds, and the highest ratio of later steps.
_MOST_SECONDS = {"cnn": 3.0, "resnet50": 10.0}
_MOST = 1.05


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=list(_MOST_SECONDS))
    options = parser.parse_args()
    print("| model | first call: s without the proof | s more with it | later steps: with it / without |")
    print("|---|---|---|---|")
    slow = False
    for name in options.models:
        turns = turns_of(PROGRAM, name, options.turns)
        more = [first[0] - without[0] for first, without in turns]
        ratios = [first[1] / without[1] for first, without in turns]
        seconds = median([without[0] for _, without in turns])
        print(f"| {name} | {seconds:.2f} | {median(more):.2f} | {range_of(ratios)} |", flush=True)
        slow = slow or median(more) > _MOST_SECONDS[name] or median(ratios) > _MOST
    raise SystemExit(int(slow))


if __name__ == "__main__":
    main()
