"""Train on data of Python code, for test_python_data.py: items, generators, data frames, image folders.

Usage: python_data.py FOLDER; writes FOLDER/<scenario>-<worker>.npz. Without TF_CONFIG it is one process.
"""

import importlib.util
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")

import keras
import tensorflow as tf
from scenarios import run_scenarios, scenario, scenarios

SIDE, CLASSES, ROWS, BATCH = 6, 3, 90, 16
rng = np.random.default_rng(0)
X = rng.random((ROWS, SIDE, SIDE, 3)).astype("float32")
Y = rng.integers(0, CLASSES, ROWS)
#: 6 batches, the last of 10 rows.
BATCHES = [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, ROWS, BATCH)]

made = []


def network():
    if not made:
        model = keras.Sequential(
            [
                keras.Input((SIDE, SIDE, 3)),
                keras.layers.Conv2D(4, 3, activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(CLASSES),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
        made.extend([model, model.get_weights()])
    made[0].set_weights(made[1])
    return made[0]


def fit(*args, model=None, **kwargs):
    model = model or network()
    return {"model": model, "history": model.fit(*args, verbose=0, **{"epochs": 2, **kwargs}).history}


class Items(keras.utils.PyDataset):
    def __len__(self):
        return len(BATCHES)

    def __getitem__(self, index):
        return BATCHES[index]


@scenario
def items():
    """Shuffled by Keras, with Python's generator."""
    return fit(Items())


@scenario
def items_in_threads():
    return fit(Items(workers=3, max_queue_size=2))


@scenario
def items_in_processes():
    result = fit(Items(workers=2, use_multiprocessing=True), epochs=1)
    # TensorFlow's handler of SIGTERM would keep it alive.
    forking = multiprocessing.get_context("fork")
    started = forking.Event()
    child = forking.Process(target=lambda: (started.set(), time.sleep(100)))
    child.start()
    started.wait(10)
    child.terminate()
    child.join(10)
    assert child.exitcode == -signal.SIGTERM
    return result


@scenario
def items_in_other_orders():
    """A worker that draws numbers for itself: the chief's order holds."""
    random.seed(worker)
    return fit(Items())


@scenario
def items_are_tested_and_predicted():
    model = network()
    tested = model.evaluate(Items(), verbose=0)
    return {"model": model, "history": {"tested": tested}, "predicted": model.predict(Items(), verbose=0)}


@scenario
def generators():
    return fit((batch for _ in range(2) for batch in BATCHES), steps_per_epoch=len(BATCHES))


@scenario
def made_by_from_generator():
    types = tf.TensorSpec((SIDE, SIDE, 3), tf.float32), tf.TensorSpec((), tf.int64)
    data = tf.data.Dataset.from_generator(lambda: zip(X, Y), output_signature=types)
    return fit(data.shuffle(50, seed=3).batch(BATCH))


@scenario
def data_frames():
    pandas = __import__("pandas")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(CLASSES)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    frame = pandas.DataFrame(X.reshape(ROWS, -1)[:, :4], columns=list("abcd"))
    return fit(frame, pandas.Series(Y), model=model, batch_size=BATCH)


@scenario
def images_of_a_folder():
    data = keras.utils.image_dataset_from_directory(
        folder.parent / "images", image_size=(SIDE, SIDE), batch_size=7, verbose=False
    )
    return fit(data)


@scenario
def refusals():
    def refused(*args, **kwargs):
        try:
            network().fit(*args, verbose=0, **kwargs)
        except tfmuster.TfmusterError as error:
            print(f"{error.kind} {error.fields['reason']}: {error.found}", flush=True)

    # One row of each worker.
    wrong = np.where(np.isin(np.arange(ROWS), (41, 80)), CLASSES, Y)
    refused(X, wrong)
    refused(tf.data.Dataset.from_tensor_slices((X, wrong)).batch(ROWS))
    return {"model": network(), "history": {}}


left_out = [] if importlib.util.find_spec("pandas") else ["data_frames"]
left_out += [] if config else ["refusals"]
run_scenarios([name for name in scenarios if name not in left_out], strategy, folder, worker)
