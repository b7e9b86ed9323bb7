"""Two workers whose calls differ learn of it before the first step."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.launching import tfmuster, write
from support.paths import PROGRAMS
from support.r import NEEDS_R

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

EQUAL = {
    "fit",
    "a callback of one worker",
    "a log of one worker",
    "functions that are made anew",
    "attributes of a layer",
    "names of layers",
    "rows of files",
    "batches",
    "batches of files",
    "shuffled rows",
    "random inputs",
    "unknown length",
    "numbers that differ in the last digits",
    "weights that other processors round",
    "predict",
}
#: What the first line of each error says.
DIFFERENT = {
    "rows of arrays": "when fit begins: worker 0 has 6 steps, worker 1 has 7 steps",
    "steps of a data set": "when fit begins: worker 0 has 9 steps, worker 1 has 7 steps",
    "own part": "when fit begins: worker 0 has rows with the numbers ",
    "order": "when fit begins: worker 0 has rows with the numbers ",
    "shard": "when fit begins: worker 0 has 5 steps, worker 1 has 4 steps",
    "batch size": "when fit begins: worker 0 has batch size 26, worker 1 has batch size 25",
    "batch size of a data set": "when fit begins: worker 0 has data set TensorSlice > Batch(26) > Take(9), ",
    "weights": "when fit begins: worker 0 has weight 0 sequential/own_a/kernel (8, 4) float32, ",
    "epochs": "when fit begins: worker 0 has 1 epochs, worker 1 has 2 epochs",
    "optimizer": "when fit begins: worker 0 has optimizer: ",
    "schedule": "worker 0 has optimizer: learning_rate: config: initial_learning_rate 0.5, worker 1 has ",
    "schedule without a configuration": ": attribute rate 0.5, worker 1 has optimizer: ",
    "activation": "layer dense (1 of 3): activation relu, worker 1 has layer dense (1 of 3): activation tanh",
    "number of layers": "worker 0 has number of layers 3, worker 1 has number of layers 4.",
    "regularizer": "layer dense (3 of 3): kernel_regularizer: config: l2 0.5, worker 1 has ",
    "attribute of a layer": "layer scaled (3 of 4): attribute factor 1.0, worker 1 has layer scaled ",
    "precision of a layer": "layer dense (3 of 3): dtype float32, worker 1 has layer dense (3 of 3): dtype ",
    "one row": "when fit begins: worker 0 has rows 76 to 77 of array 1 with the sum ",
    "one label": "when fit begins: worker 0 has rows 76 to 77 of array 2 with the sum ",
    "one sample weight": "worker 0 has rows 76 to 77 of array 3 with the sum 3, worker 1 has rows 76 ",
    "loss": "worker 0 has loss sparse_categorical_crossentropy, worker 1 has loss mse.",
    "constant of a function": "worker 0 has layer lambda (2 of 3): function: values: factor 2.0, worker 1 ",
    "code of a function": "worker 0 has layer lambda (2 of 3): function: code ",
    "class weights": "worker 0 has argument: class_weight: 1 2.0, worker 1 has argument: class_weight: 1 3.0",
    "callback that sets": "worker 0 has callbacks that change the training LearningRateScheduler, worker 1 ",
    "setting of a callback": "worker 0 has callback: EarlyStopping (1): patience 2, worker 1 has ",
    "values of weights": "The weights of worker 1 differ from those of worker 0 when fit begins: sequential_",
    "values of weights on other processors": "when fit begins: sequential_",
    "learning rate": "when fit begins: worker 0 has optimizer: learning_rate 0.00",
    "learning rate that a callback sets": "/learning_rate, 0.5 for 0.01 (the first of 5).",
    "weights that a callback sets": "differ from those of worker 0 since epoch 2: sequential_",
    "values before predict": "The weights of worker 1 differ from those of worker 0 when predict begins: ",
    "rows of servers": "Rows of tf.data servers come in another order on each worker.",
    "order of a later epoch": "The workers have read other rows in epoch 2, or the same in another order.",
    "order within evaluate": "The workers have read other rows in evaluate, or the same in another order.",
    "seed of batches": "worker 0 has batches of 26 of 260 rows shuffled by seed 0, from epoch 0, ",
    "labels of batches": "when fit begins: worker 0 has labels ",
    "seed of batches of files": "worker 0 has batches of 26 of 52 rows shuffled by seed 0, from epoch 0, ",
    "order of batches of files": "worker 0 has files a.csv, b.csv, ... in 2 parts (",
    "order of files": "worker 0 has files a.rec, b.rec of 2 (",
    "rows of files": "when fit begins: worker 0 has rows with the numbers ",
    "function of a data set": "data: function 1: values: factor 0.5, worker 1 has ",
    "setting of Keras": "worker 0 has setting of Keras: epsilon 1e-07, worker 1 has setting of Keras: ",
    "validation": "when fit begins: worker 0 has validation True, worker 1 has validation False",
    "evaluate": "when evaluate begins: worker 0 has 6 steps, worker 1 has 7 steps",
    "predict": "when predict begins: worker 0 has 6 steps, worker 1 has 7 steps",
    "call": "must make the same call. They differ: worker 0: fit; worker 1: evaluate",
    "seed": "when fit begins: worker 0 has data set TensorSlice > Batch(32) > Shuffle(260, ",
}
#: The same for functions of R.
DIFFERENT_IN_R = {
    "constant of a function": "layer lambda (1 of 2): function: factor 2, worker 1 has ",
    "code of a function": "function: code function (x) keras$ops$multiply(x, factor), worker 1 has ",
    "value that it uses": "layer lambda (1 of 2): function: bound 1, worker 1 has ",
    "loss": "has loss: code function (y, predicted) keras$ops$mean(keras$ops$square(",
    "callback that stops": "has callbacks that change the training LambdaCallback, worker 1 has ",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("differing")


@pytest.fixture(scope="module")
def output(folder: Path) -> str:
    done = tfmuster("launch", "--all-output", "-n", 2, PROGRAMS / "differing.py", cwd=folder, limit=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in re.findall(r"^worker \d \| (\{.*\})$", output, re.MULTILINE)]


def test_equal_calls_train(told: list[dict[str, Any]]) -> None:
    said = [event["equal"] for event in told if "equal" in event]
    assert sorted(said) == sorted([*EQUAL, *EQUAL])


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_calls_are_named_on_every_worker(told: list[dict[str, Any]], name: str) -> None:
    said = [event for event in told if event.get("different") == name]
    assert len(said) == 2
    for event in said:
        kind = "StateError" if " since epoch " in event["text"] else "DataError"
        reason = "order" if name == "rows of servers" else "workers-differ"
        assert (event["error"], event.get("reason")) == (kind, reason), event
        assert DIFFERENT[name] in event["text"].splitlines()[0]
        assert "to do: " in event["text"]


@NEEDS_R
def test_different_functions_of_r_are_named_on_every_worker(tmp_path: Path) -> None:
    done = tfmuster("launch", "--all-output", "-n", 2, PROGRAMS / "differing.R", cwd=tmp_path, limit=200)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"^worker (\d) \| ([\w ]+) \| (.*)$", done.stdout, re.MULTILINE)
    texts = {(int(worker), name): text for worker, name, text in said}
    for worker in (0, 1):
        assert texts.pop((worker, "equal")) == texts.pop((worker, "a log of one worker")) == "trained"
        for name, expected in DIFFERENT_IN_R.items():
            text = texts.pop((worker, name))
            assert text.startswith("tfmuster.errors.DataError: The workers must agree when fit begins: ")
            assert expected in text
    assert not texts


def test_input_that_every_worker_reads_is_told_once(output: str, folder: Path) -> None:
    notes = [line for line in output.splitlines() if "input does not get faster" in line]
    assert len(notes) == 2 and notes[1].startswith("worker 0 | tfmuster: "), notes
    assert "RandomUniform" in notes[0]
    reason = notes[1].partition("workers: ")[2]
    assert "Filter" in reason or "filter" in reason
    shown = tfmuster("runs", "show", cwd=folder).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("input:")]
    assert reason in line and "each worker reads and prepares its own rows only" in line


@pytest.mark.timed
def test_it_takes_milliseconds(told: list[dict[str, Any]]) -> None:
    least = [(event["least"], event["compared"]) for event in told if "compared" in event]
    # The shortest of nine: other processes lengthen the others.
    assert len(least) == 6 and max(least)[0] < 0.02, least


@pytest.mark.parametrize("moment", ["epoch", "batch"])
def test_a_chief_that_alone_calls_evaluate_is_told(tmp_path: Path, moment: str) -> None:
    """At the end of an epoch the others wait with it; after a batch they are in the next step."""
    done = tfmuster("launch", "-n", 2, PROGRAMS / "differing.py", "alone", moment, cwd=tmp_path, limit=120)
    assert done.returncode == 1
    if moment == "epoch":
        assert "All workers must make the same call. They differ: worker 0: evaluate;" in done.stderr
        assert "; worker 1: the end of an epoch." in done.stderr
        assert "make the same calls on every worker" in done.stderr
    else:
        assert "All workers must call evaluate, but worker 1 is in fit, epoch 1 of 3, step" in done.stderr
        assert "call evaluate on every worker" in done.stderr


def test_a_weight_of_another_shape_is_named(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAMS / "differing.py", "shape", cwd=tmp_path, limit=120)
    assert done.returncode == 1
    said = re.search(
        r"make a weight: kernel has the shape (\S+) on worker (\d), and (\S+) on another", done.stderr
    )
    assert said is not None, done.stderr
    assert said.groups() in {("[8,4]", "0", "[8,5]"), ("[8,5]", "1", "[8,4]")}
    assert "build the same model on every worker" in done.stderr


def test_a_variable_that_one_worker_makes_alone_is_named(tmp_path: Path) -> None:
    """A random number of Keras makes one: the state of its generator."""
    program = PROGRAMS / "differing.py"
    done = tfmuster("launch", "-n", 2, program, "variable", cwd=tmp_path, limit=120)
    assert done.returncode == 1
    assert "All workers must make the same variables in the same order." in done.stderr
    lines = {line.strip(): number for number, line in enumerate(program.read_text().splitlines(), 1)}
    for making, code in (
        ("seed_generator_state", "sample = keras.random.normal((2,)) if index == 0 else None"),
        ("kernel", "keras.layers.Dense(3).build((None, 8))"),
    ):
        # either worker may be the one whose error is shown
        assert f" {making} ({program}, line {lines[code]}: {code})" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "call", ['strategy.reduce("SUM", tf.constant(1.0), axis=None)', "model.train_on_batch(rows, rows[:, :1])"]
)
def test_a_collective_of_one_worker_is_named_with_its_line(tmp_path: Path, call: str) -> None:
    lines = SIGNALLED.strip().splitlines()
    write(tmp_path, "train.py", "import tensorflow as tf", *lines[:-2], f"if index == 0: {call}", *lines[-2:])
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path, limit=120)
    assert done.returncode == 1
    line = re.escape(f"(train.py, line {len(lines)}: if index == 0: {call})")
    # It is in a collective operation, or makes a variable for it.
    doing = "(outside of fit, evaluate, and predict, inside a step or another TensorFlow call|making \\w+)"
    assert re.search(f"All workers must call fit, but worker 0 is {doing} {line}\\.", done.stderr), (
        done.stderr
    )


SIGNALLED = """
import os, signal
import tfmuster
strategy = tfmuster.strategy("multi_worker_mirrored")
index = tfmuster.current_task().index
import keras, numpy as np

class Signals(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 20 and index == 1:
            os.kill(os.getpid(), signal.SIGUSR2)

with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
signal.signal(signal.SIGUSR2, lambda *_: setattr(model, "stop_training", True))
rows = np.ones((400, 4), "float32")
history = model.fit(rows, rows[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=[Signals()])
print("ended", len(history.epoch), int(model.optimizer.iterations))
"""


def test_a_signal_that_stops_one_worker_stops_all_after_the_next_step(tmp_path: Path) -> None:
    """No callback of the program says that a training may stop after a batch, so nobody asks then."""
    write(tmp_path, "train.py", SIGNALLED)
    done = tfmuster("launch", "--all-output", "-n", 2, "train.py", cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"ended \d+ \d+", done.stdout) == 2 * ["ended 1 22"]


def test_predictions_of_unknown_rows_are_refused(tmp_path: Path) -> None:
    """The model returns some of the rows, and each worker another number of them."""
    done = tfmuster("launch", "-n", 2, PROGRAMS / "differing.py", "rows", cwd=tmp_path, limit=120)
    assert done.returncode == 1
    assert "predict on several workers needs a model that gives the same number of rows" in done.stderr
    assert re.search(r"found: \[\d+, \d+\] rows for \[\d+, \d+\] rows of the workers", done.stderr)
    assert "return one row of predictions for each row of data" in done.stderr
