"""Train with gradients of each data type, and write what came of it. Usage: gradient_dtypes.py FOLDER.

FOLDER/<worker>.json has the collectives of each type, and if there is `ss`, and the workers don't read each
other's memory, what each step sends: as told, and as the kernel counts it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import tfmuster
from tfmuster.keras_compat.choices import GRADIENT_DTYPE
from tfmuster.keras_compat.sums.gradients import bytes_per_step

folder = Path(sys.argv[1])
communication = os.environ["TFMUSTER_COMMUNICATION"]
worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras
from tensorflow.python.eager import context

STEPS = 40
generator = np.random.default_rng(0)
x, words = generator.normal(size=(600, 9)).astype("float32"), generator.integers(0, 50, (600, 3))
y = np.tanh(x.sum(axis=1, keepdims=True) + words.mean(axis=1, keepdims=True) / 25)


def collectives():
    """How often each collective stands in the functions that TensorFlow has traced so far."""
    found = Counter()
    for name in context.context().list_function_names():
        if name.startswith("__wrapped__"):
            continue  # an operation that ran by itself
        for node in context.context().get_function_def(name).node_def:
            if node.op.startswith("Collective"):
                found[f"{node.op} {node.attr['T'].type}"] += 1
            elif node.op == "TfmusterSum":
                found[f"{node.op} {node.attr['wire'].i}"] += 1
    return found


def sent():
    """Bytes that this process has sent by TCP."""
    lines = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True, check=True).stdout.splitlines()
    own = [line for line in lines if f"pid={Path('/proc/self').readlink()}," in line]
    return sum(int(number) for line in own for number in re.findall(r"bytes_sent:(\d+)", line))


counts = {}
for dtype in GRADIENT_DTYPE.values:
    GRADIENT_DTYPE.set(strategy, dtype)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        numbers, tokens = keras.Input((9,)), keras.Input((3,), dtype="int32")
        # The gradient of an embedding is sparse: only the rows of the words in the batch.
        embedded = keras.layers.Flatten()(keras.layers.Embedding(50, 4)(tokens))
        joined = keras.layers.Concatenate()([keras.layers.Dense(31, "tanh")(numbers), embedded])
        model = keras.Model([numbers, tokens], keras.layers.Dense(1)(joined))
        model.compile(keras.optimizers.Adam(0.01), "mse")
    before = collectives()
    model.fit([x, words], y, batch_size=60, epochs=10, verbose=0)
    counts[dtype] = collectives() - before
    np.savez(folder / f"{dtype}-{worker}.npz", *model.get_weights())

# Nothing but sparse gradients.
GRADIENT_DTYPE.set(strategy, "bfloat16")
with strategy.scope():
    model = keras.Sequential([keras.Input((3,), dtype="int32"), keras.layers.Embedding(50, 1)])
    model.compile("sgd", "mse")
history = model.fit(words, np.repeat(y, 3, axis=1), batch_size=60, epochs=2, verbose=0).history["loss"]
assert history[1] < history[0], history

traffic = {}
measured = GRADIENT_DTYPE.values if shutil.which("ss") and communication in ("tcp", "tensorflow") else ()
zeros = np.zeros((STEPS * 12, 100), "float32"), np.zeros((STEPS * 12, 1), "float32")
for dtype in measured:
    GRADIENT_DTYPE.set(strategy, dtype)
    with strategy.scope():
        model = keras.Sequential([keras.Input((100,)), keras.layers.Dense(2000), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(*zeros, batch_size=12, verbose=0, shuffle=False)
    before = sent()
    model.fit(*zeros, batch_size=12, verbose=0, shuffle=False)
    traffic[dtype] = [bytes_per_step(model, strategy), (sent() - before) / STEPS]
folder.joinpath(f"{worker}.json").write_text(json.dumps({"collectives": counts, "traffic": traffic}))
