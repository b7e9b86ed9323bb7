"""XLA can't reduce between workers: fit says so, and the same model trains without it."""

import numpy as np

import tfmuster
from tfmuster.errors import StrategyError

strategy = tfmuster.strategy("multi_worker_mirrored")
import keras

x, y = np.ones((8, 4)), np.ones((8, 2))
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", jit_compile=True)
for run in (model.fit, model.evaluate):
    try:
        run(x, y, batch_size=4, verbose=0)
    except StrategyError as error:
        print(error.fields["reason"], "|", error.fix)
with strategy.scope():
    model.compile("sgd", "mse", jit_compile=False)
print("epochs", len(model.fit(x, y, batch_size=4, epochs=2, verbose=0).history["loss"]))
