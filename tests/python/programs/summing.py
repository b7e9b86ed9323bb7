"""Train, and print a digest of the weights and what has summed the gradients. Usage: summing.py KIND.

With KIND "mixed" all workers but the first behave as on a machine without a C compiler.
"""

import hashlib
import json
import os
import sys

worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
if sys.argv[1] == "mixed" and worker:
    os.environ["PATH"] = "/proc/nothing"
    os.environ["XDG_CACHE_HOME"] += "/without"

import keras
import numpy as np

import tfmuster
from tfmuster.collectives import current_group
from tfmuster.keras_compat.sums import collectives

strategy = tfmuster.strategy("multi_worker_mirrored")
generator = np.random.default_rng(0)
x, words = generator.normal(size=(300, 20)).astype("float32"), generator.integers(0, 50, (300, 3))
y = np.tanh(x.sum(axis=1, keepdims=True))
digest = hashlib.sha256()
# The last bits of a history depend on the steps of an execution, which fit() would choose by its speed.
for steps, options in ((1, {}), (3, {}), (1, {"run_eagerly": True}), (1, {"jit_compile": True})):
    if options or steps > 1:
        # As between machines, and so small that a step has several sums.
        if group := current_group():
            group.one_machine = False
        collectives._BUCKET = 4096
    keras.utils.set_random_seed(1)
    with strategy.scope():
        numbers, tokens = keras.Input((20,)), keras.Input((3,), dtype="int32")
        embedded = keras.layers.Flatten()(keras.layers.Embedding(50, 4)(tokens))
        hidden = keras.layers.BatchNormalization()(keras.layers.Dense(600, "tanh")(numbers))
        joined = keras.layers.Concatenate()([hidden, embedded])
        model = keras.Model([numbers, tokens], keras.layers.Dense(1)(joined))
        optimizer = keras.optimizers.Adam(0.01, global_clipnorm=1.0)
        model.compile(optimizer, "mse", metrics=["mae"], steps_per_execution=steps, **options)
    history = model.fit([x, words], y, batch_size=64, epochs=2, verbose=0).history
    digest.update(json.dumps(history).encode())
    for weight in model.get_weights():
        digest.update(weight.tobytes())
group = current_group()
print(digest.hexdigest(), "none" if group is None else "numpy" if group.why_numpy else "c", flush=True)
