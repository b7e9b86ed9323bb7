"""Print what each step sends, by gradient type: as it is told, and as the kernel counts it."""

import json
import os
import re
import subprocess

import keras
import numpy as np

import tfmuster
from tfmuster.keras_compat import GRADIENT_DTYPES, bytes_per_step, set_gradient_dtype

STEPS = 40
strategy = tfmuster.strategy("multi_worker_mirrored")
x, y = np.zeros((STEPS * 12, 100), "float32"), np.zeros((STEPS * 12, 1), "float32")


def sent():
    """Bytes that this process has sent by TCP."""
    lines = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True, check=True).stdout.splitlines()
    own = [line for line in lines if f"pid={os.getpid()}," in line]
    return sum(int(number) for line in own for number in re.findall(r"bytes_sent:(\d+)", line))


found = {}
for dtype in GRADIENT_DTYPES:
    set_gradient_dtype(strategy, dtype)
    with strategy.scope():
        model = keras.Sequential([keras.Input((100,)), keras.layers.Dense(2000), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(x, y, batch_size=12, verbose=0, shuffle=False)
    before = sent()
    model.fit(x, y, batch_size=12, verbose=0, shuffle=False)
    found[dtype] = [bytes_per_step(model, strategy), (sent() - before) / STEPS]
print(json.dumps(found))
