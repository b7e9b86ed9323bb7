"""Each worker works in a folder of its own, as on machines that share none, and reads what all have saved.

Usage: read_what_was_saved.py FOLDER. Each prints a line of JSON: what the loaded models predict, by name, and
whether the named file is there.
"""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
folder = Path(sys.argv[1], str(tfmuster.current_task().index))
(folder / "deep").mkdir(parents=True)
os.chdir(folder)
x = np.random.default_rng(0).random((12, 3)).astype("float32")
y = x.sum(axis=1, keepdims=True)
keras.utils.set_random_seed(7)


def made() -> keras.Model:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "tanh"), keras.layers.Dense(1)])
    model.compile("adam", keras.losses.MeanSquaredError())  # Keras does not load "mse" from HDF5
    return model


found = {}


def show(name: str, values: object) -> None:
    found[name] = np.asarray(values).round(5).tolist()


with strategy.scope():
    model, other = made(), made()
    best = keras.callbacks.ModelCheckpoint(
        "best.weights.h5", monitor="loss", save_best_only=True, save_weights_only=True
    )
    model.fit(x, y, batch_size=6, epochs=2, verbose=0, callbacks=[best])
    trained = model.predict(x, verbose=0)
    show("model", trained)
    model.save("deep/m.keras")
    other.save("m.keras")  # the same name in another folder
    model.save("m.h5")
    model.save("unzipped", zipped=False)
    model.save_weights("many.weights.json", max_shard_size=1e-7)
    for path in ("deep/m.keras", Path("m.h5"), "unzipped"):
        show(str(path), keras.models.load_model(path).predict(x, verbose=0))
    for path in (os.path.abspath("many.weights.json"), Path("best.weights.h5"), "unzipped/model.weights.h5"):
        again = made()
        again.load_weights(path)
        show(os.path.basename(path), again.predict(x, verbose=0))
    other.load_weights("m.keras")
    show("other", other.predict(x, verbose=0))
    # A newer file replaces the older one.
    other.save("deep/m.keras")
    show("newer", keras.saving.load_model("deep/m.keras").predict(x, verbose=0))
    keras.saving.KerasFileEditor("best.weights.h5").save("edited.weights.h5")
    again = made()
    again.load_weights("edited.weights.h5")
    show("edited", again.predict(x, verbose=0))
model.export("served", verbose=False)
served = tf.saved_model.load("served")
show("served", served.serve(x))
print(json.dumps({"found": found, "there": sorted(p.name for p in Path(".").rglob("*") if p.is_file())}))
