"""Models made outside of the scope, and every way to write a file, on several workers."""

import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfmuster.errors import StrategyError

way = sys.argv[1]
model = keras.Sequential()
if way == "workers":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = strategy.cluster_resolver.task_id
else:
    strategy, index = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), 0
outside = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
with strategy.scope():
    model.add(keras.Input((4,)))
    model.add(keras.layers.Dense(3))
    model.add(keras.layers.Dropout(0.0))
    model.add(keras.layers.Dense(1))
    try:
        outside.compile("sgd", "mse")
    except StrategyError as error:
        print("refused", error.fields["reason"], error.found)
# Their variables are made outside, too.
optimizer, metric = keras.optimizers.RMSprop(), keras.metrics.MeanAbsoluteError(name="mae")
model.compile(optimizer, "mse", metrics=[metric])
x = np.random.default_rng(index).normal(size=(64, 4)) if way == "mirrored" else np.ones((64, 4))
history = model.fit(x, x.sum(axis=1), batch_size=16, epochs=2, verbose=0, validation_split=0.25)
print("steps", int(optimizer.iterations.numpy()), "mae", history.history["mae"])
print("strategy", model.distribute_strategy is strategy, "weights", model.get_weights()[0].ravel().tolist())

# Each worker writes below a folder of its own, so what only the chief writes is missing in the others.
folder = Path(f"files-{index}")
folder.mkdir()
os.chdir(folder)
model.save("saved.keras")
model.save_weights("saved.weights.h5")
keras.saving.save_model(model, "function.keras")
keras.models.save_model(model, "function.h5")
model.export("exported", verbose=False)
archive = keras.export.ExportArchive()
archive.track(model)
archive.add_endpoint("serve", model.call, [keras.InputSpec(shape=(None, 4), dtype="float32")])
archive.write_out("archive", verbose=False)
model.fit(x, x.sum(axis=1), batch_size=16, verbose=0, callbacks=[keras.callbacks.CSVLogger("log.csv")])
# A model that belongs to no strategy is this worker's own.
keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]).save("own.keras")
print("files", sorted(os.listdir(".")))
