"""Training from R against the same in Python: speed, and the most memory that a session took.

Usage: r.py [--repeats 3] [--epochs 4] [--data MNIST.npz]    needs Rscript and the R package

The digits are repeated to 60,000, as many as MNIST has. Rows: `train_mnist()` in both languages; `fit()` of a
model that R has built with reticulate, on the data set of `tfmuster.batches`; and, for its memory, R as in
tutorials for R: an array of doubles, divided by 255, is passed to `fit`. Speed is that of all epochs but the
first, as a ratio to Python in the same repetition. Exits with 1 if R has less than 0.97 of Python's speed, or
`train_mnist` in R takes more memory than Python, 100 MB, and an R session that has only loaded reticulate.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfmuster.digits import datasets

TIMED = """
times <- numeric()
noted <- reticulate::import("keras")$callbacks$LambdaCallback(
  on_epoch_end = function(epoch, logs) times <<- c(times, proc.time()[["elapsed"]])
)
"""
PROGRAMS = {
    "Python, train_mnist()": """
import sys, time, keras, tfmuster
times = []
noted = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: times.append(time.perf_counter()))
tfmuster.train_mnist("cnn", dataset=sys.argv[1], epochs=int(sys.argv[2]), steps_per_epoch=0, verbose=0,
                     callbacks=[noted], recipe="document")
print("EPOCHS", *times)
""",
    "R, train_mnist()": """
args <- commandArgs(TRUE)
library(tfmuster)
"""
    + TIMED
    + """
result <- train_mnist("cnn", dataset = args[1], epochs = as.integer(args[2]), steps_per_epoch = 0,
                      verbose = 0, callbacks = list(noted), recipe = "document")
cat("EPOCHS", times, "\\n")
""",
    "R, fit() of reticulate": """
args <- commandArgs(TRUE)
library(tfmuster)
keras <- reticulate::import("keras")
"""
    + TIMED
    + """
digits <- reticulate::import("tfmuster.digits.datasets", convert = FALSE)$mnist(args[1])
batches <- reticulate::import("tfmuster", convert = FALSE)$batches
data <- batches(digits$x_train, digits$y_train, 64L, seed = 0L)
layers <- keras$layers
model <- keras$Sequential(list(
  keras$Input(reticulate::tuple(28L, 28L)), layers$Rescaling(1 / 255), layers$Reshape(c(28L, 28L, 1L)),
  layers$Conv2D(32L, 3L, activation = "relu"), layers$MaxPooling2D(2L), layers$Flatten(),
  layers$Dense(64L, activation = "relu"), layers$Dense(10L)
))
loss <- keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE)
model$compile(optimizer = "sgd", loss = loss, metrics = list("accuracy"))
fitted <- model$fit(data, epochs = as.integer(args[2]), verbose = 0L, callbacks = list(noted))
cat("EPOCHS", times, "\\n")
""",
    "R, array of doubles": """
args <- commandArgs(TRUE)
keras <- reticulate::import("keras")
"""
    + TIMED
    + """
digits <- reticulate::import("numpy")$load(args[1])
x <- digits$f[["x_train"]] / 255
y <- digits$f[["y_train"]]
layers <- keras$layers
model <- keras$Sequential(list(
  keras$Input(reticulate::tuple(28L, 28L)), layers$Reshape(c(28L, 28L, 1L)),
  layers$Conv2D(32L, 3L, activation = "relu"), layers$MaxPooling2D(2L), layers$Flatten(),
  layers$Dense(64L, activation = "relu"), layers$Dense(10L)
))
loss <- keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE)
model$compile(optimizer = "sgd", loss = loss, metrics = list("accuracy"))
fitted <- model$fit(x, y, batch_size = 64L, epochs = as.integer(args[2]), verbose = 0L,
                    callbacks = list(noted))
cat("EPOCHS", times, "\\n")
""",
}
BASE = "Python, train_mnist()"


@dataclass
class Measured:
    """Images per second of the epochs after the first, and the peak of resident memory, MB."""

    speed: float
    memory: float


def measure(name: str, folder: Path, data: Path, epochs: int, rows: int) -> Measured:
    """Run one program."""
    script = folder / ("train.py" if name.startswith("Python") else "train.R")
    script.write_text(PROGRAMS[name])
    run = [sys.executable] if script.suffix == ".py" else ["Rscript", "--vanilla"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "RETICULATE_PYTHON": sys.executable}
    process = subprocess.Popen(
        [*run, str(script), str(data), str(epochs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    found = re.search(r"^EPOCHS (.*)$", out, re.MULTILINE)
    if status or not found:
        raise SystemExit(f"{name} failed:\n{out[-1000:]}\n{err[-2000:]}")
    times = [float(number) for number in found.group(1).split()]
    return Measured(rows * (len(times) - 1) / (times[-1] - times[0]), usage.ru_maxrss / 1000)


def main() -> int:
    """Measure, print the table; 1 if R misses a limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--data", default=os.environ.get("TFMUSTER_MNIST", "synthetic"))
    given = parser.parse_args()
    digits = datasets.load(given.data)
    rows = 60_000
    found: dict[str, list[Measured]] = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as name:
        data = Path(name, "mnist.npz")
        repeated = np.resize(np.arange(len(digits.x_train)), rows)
        np.savez(
            data,
            x_train=digits.x_train[repeated],
            y_train=digits.y_train[repeated],
            x_test=digits.x_test,
            y_test=digits.y_test,
        )
        for _ in range(given.repeats):
            for program in PROGRAMS:
                found[program].append(measure(program, Path(name), data, given.epochs, rows))
                time.sleep(1)
    bare = subprocess.Popen(["Rscript", "--vanilla", "-e", "invisible(loadNamespace('reticulate'))"])
    reticulate = os.wait4(bare.pid, 0)[2].ru_maxrss / 1000
    print("| program | speed / Python | images/s | peak memory, MB |")
    print("|---|---|---|---|")
    ratios, memory = {}, {}
    for program, measured in found.items():
        pairs = zip(measured, found[BASE], strict=True)
        ratios[program] = statistics.median(each.speed / base.speed for each, base in pairs)
        memory[program] = statistics.median(each.memory for each in measured)
        speed = statistics.median(each.speed for each in measured)
        print(f"| {program} | {ratios[program]:.2f} | {speed:,.0f} | {memory[program]:,.0f} |")
    print(f"An R session that has only loaded reticulate: {reticulate:,.0f} MB")
    slow = min(ratios["R, train_mnist()"], ratios["R, fit() of reticulate"]) < 0.97
    return int(slow or memory["R, train_mnist()"] > memory[BASE] + 100 + reticulate)


if __name__ == "__main__":
    raise SystemExit(main())
