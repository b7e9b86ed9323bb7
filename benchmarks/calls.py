"""How long a call of launch(function) takes until the workers begin to train, with new and with warm workers.

Usage: calls.py [--repeats 5] [--workers 2]

A session of Python and one of R call a function that trains a small model. Measured: the seconds from the
call to the begin of `fit` on the last worker, and to the end of its first step. The table has the medians.
For warm workers, each call is made when those that take the places of the last ones wait.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON = """
import json, sys, time
import tfmuster

def train(strategy):
    import time
    import keras, numpy as np
    moments = []
    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            moments.append(time.time())
        def on_train_batch_end(self, batch, logs=None):
            moments.append(time.time())
    x, y = np.zeros((640, 784), "float32"), np.zeros(640, "int32")
    with strategy.scope():
        layers = [keras.Input((784,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(10)]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, steps_per_execution=1)
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[Watch()])
    return moments[:2]

if __name__ == "__main__":
    workers, warm, repeats = map(int, sys.argv[1:])
    if warm:
        tfmuster.workers(workers)
    for _ in range(repeats):
        time.sleep(10 if warm else 1)
        called = time.time()
        values = tfmuster.launch(train, workers=workers, quiet=True)
        print(json.dumps([max(moments) - called for moments in zip(*values.values())]), flush=True)
"""
R = """
library(tfmuster)
train <- function(strategy) {
  keras <- reticulate::import("keras")
  moments <- NULL
  note <- function(...) moments <<- c(moments, as.numeric(Sys.time()))
  watch <- keras$callbacks$LambdaCallback(on_train_begin = note, on_train_batch_end = note)
  x <- matrix(0, 640, 784)
  y <- array(0L, 640)
  with(strategy$scope(), {
    model <- keras$Sequential(list(
      keras$Input(reticulate::tuple(784L)), keras$layers$Dense(128L, "relu"), keras$layers$Dense(10L)
    ))
    loss <- keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE)
    model$compile("adam", loss, steps_per_execution = 1L)
  })
  model$fit(x, y, batch_size = 64L, verbose = 0L, callbacks = list(watch))
  moments[1:2]
}
given <- as.numeric(commandArgs(TRUE))
if (given[2]) workers(given[1])
for (turn in seq_len(given[3])) {
  Sys.sleep(if (given[2]) 12 else 1)
  called <- as.numeric(Sys.time())
  values <- launch(train, workers = given[1], quiet = TRUE)
  latest <- do.call(pmax, unname(unclass(values))) - called
  cat(sprintf("[%f, %f]\\n", latest[1], latest[2]))
}
"""


def seconds(command: list[str], workers: int, warm: bool, repeats: int, folder: Path) -> list[float]:
    """Return the medians of the seconds until `fit` begins, and until its first step has ended."""
    done = subprocess.run(
        [*command, str(workers), str(int(warm)), str(repeats)],
        cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "RETICULATE_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60 + 40 * repeats,
    )
    taken = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [statistics.median(each) for each in zip(*taken, strict=True)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    print(
        "| session | workers | until fit begins, s | until its first step has ended, s |\n|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "session.py").write_text(PYTHON)
        (folder / "session.R").write_text(R)
        sessions = {"Python": [sys.executable, "session.py"]}
        if rscript := shutil.which("Rscript"):
            sessions["R"] = [rscript, "session.R"]
        for language, command in sessions.items():
            for warm in (False, True):
                begin, step = seconds(command, given.workers, warm, given.repeats, folder)
                print(f"| {language} | {'warm' if warm else 'new'} | {begin:.2f} | {step:.2f} |", flush=True)


if __name__ == "__main__":
    main()
