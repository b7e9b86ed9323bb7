"""What BatchNormalization of the whole batch costs, against that of each worker's rows.

Usage: batch_norm.py [--turns 9] [--communication auto tcp]

Two workers on this machine train ResNet50 (53 such layers) with 16 images of 64 x 64 in a step, whose sums
go through shared memory ("auto") or by TCP. Epochs of 6 steps with each take turns in one process. The table
has the medians over the turns, of the chief. It ends with 1 if a ratio is above 1.1.
"""

from __future__ import annotations

import argparse

from turns import median, range_of, turns_of

PROGRAM = """
import json, sys, time
import numpy as np
import tfmuster

turns, communication = int(sys.argv[1]), sys.argv[2]
strategy = tfmuster.strategy("multi_worker_mirrored", communication=communication)
import keras
from tfmuster.keras_compat.losses.batch_statistics import set_batch_norm

rng = np.random.default_rng(0)
x, y = rng.normal(size=(96, 64, 64, 3)).astype("float32"), rng.integers(0, 10, 96)
with strategy.scope():
    options = dict(include_top=False, weights=None, input_shape=(64, 64, 3), pooling="avg")
    body = keras.applications.ResNet50(**options)
    model = keras.Sequential([body, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Both with one step in an execution.
    model.compile("sgd", loss, steps_per_execution=1)

functions = {}


def epoch(how):
    set_batch_norm(strategy, how)
    model.train_function = functions.get(how)
    begin = time.perf_counter()
    model.fit(x, y, batch_size=16, verbose=0)
    functions[how] = model.train_function
    return time.perf_counter() - begin


HOW = ("synchronized", "local")
for how in HOW:
    epoch(how)
for turn in range(turns):
    taken = {how: epoch(how) for how in (HOW if turn % 2 else HOW[::-1])}
    if tfmuster.current_task().is_chief:
        print("TURN", json.dumps([taken[how] / 6 for how in HOW]), flush=True)
"""

#: The highest ratio.
_MOST = 1.1


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--communication", nargs="+", default=["auto", "tcp"])
    options = parser.parse_args()
    print("| sums | a step: s with each worker's rows | with the whole batch / with these |")
    print("|---|---|---|")
    slow = False
    for communication in options.communication:
        turns = turns_of(PROGRAM, options.turns, communication)
        ratios = [whole / local for whole, local in turns]
        seconds = median([local for _, local in turns])
        print(f"| {communication} | {seconds:.3f} | {range_of(ratios)} |", flush=True)
        slow = slow or median(ratios) > _MOST
    raise SystemExit(int(slow))


if __name__ == "__main__":
    main()
