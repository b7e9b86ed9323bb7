"""A training that is interrupted ends as if it had not been, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from tfmuster.errors import CheckpointError, TfmusterError, TfmusterWarning


def final(folder: Path, worker: int = 0) -> dict[str, np.ndarray]:
    with np.load(folder / f"result-{worker}.npz") as file:
        return dict(file)


#: Number of workers, input, steps between checkpoints, steps before which the training is interrupted.
CASES: list[tuple[int, str, int | str, list[int]]] = [
    (0, "numpy", "epoch", [15, 25]),
    (0, "numpy", 4, [3, 15, 27]),
    (0, "dataset", 3, [14, 16]),
    (0, "repeated", 4, [13, 30]),
    (0, "executions", 6, [13]),
    (2, "numpy", 4, [15, 27]),
    (2, "dataset", 3, [14]),
    (2, "repeated", "epoch", [13]),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all trainings: for each case ``<number>-undisturbed`` and ``<number>-disturbed``."""
    folder = tmp_path_factory.mktemp("trained")
    for workers in (0, 2):
        trainings = [
            (str(folder / f"{number}-{name}"), kind, every, steps)
            for number, (of, kind, every, die_at) in enumerate(CASES)
            for name, steps in (("undisturbed", []), ("disturbed", die_at))
            if of == workers
        ]
        succeeded(run_job("resuming.py", workers, json.dumps(trainings), limit=350))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: "-".join(map(str, CASES[n][:3])))
def test_bitwise_equal(trained: Path, number: int) -> None:
    undisturbed, disturbed = trained / f"{number}-undisturbed", trained / f"{number}-disturbed"
    expected = final(undisturbed)
    assert expected.keys() >= {"loss", "accuracy", "arr_0"}
    for worker in range(max(CASES[number][0], 1)):
        for name, value in final(disturbed, worker).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"worker {worker}: {name}")
    assert len(list(disturbed.glob("*.checkpoint"))) == 2
    assert not list(disturbed.glob("*.part"))


def epochs_trained(
    folder: Path, *, epochs: int = 2, units: int = 4, name: str | None = None, optimizer: str = "adam"
) -> list[int]:
    """Train with checkpoints in a folder. Return the epochs that ran, from 0."""
    import keras

    import tfmuster

    class Epochs(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            ran.append(epoch)

    ran: list[int] = []
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(units, name=name), keras.layers.Dense(units)]
    )
    model.compile(optimizer, "mse")
    model.fit(
        np.ones((8, 3)),
        np.ones((8, units)),
        epochs=epochs,
        verbose=0,
        callbacks=[tfmuster.checkpoint_callback(folder), Epochs()],
    )
    return ran


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"units": 5}, r"sequential/dense/kernel of shape \(3, 4\), here .* of shape \(3, 5\)"),
        ({"optimizer": "sgd"}, "the optimizer Adam, here SGD"),
        # As many numbers of the same shapes, so nothing else would fail.
        ({"name": "hidden"}, r"sequential/dense/kernel of shape \(3, 4\), here sequential/hidden/kernel"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, other: dict, found: str) -> None:
    assert epochs_trained(tmp_path) == [0, 1]
    with pytest.raises(CheckpointError, match=found) as caught:
        epochs_trained(tmp_path, epochs=3, **other)
    assert caught.value.fields["reason"] == "other-model"
    assert str(tmp_path) in str(caught.value.fix)
    # The same model, whose layers Keras has numbered anew, resumes.
    assert epochs_trained(tmp_path, epochs=3) == [2]


def test_a_second_fit_that_finds_the_end_of_the_first_is_warned_of(tmp_path: Path) -> None:
    assert epochs_trained(tmp_path) == [0, 1]
    with pytest.warns(TfmusterWarning, match=f"nothing to train: {tmp_path} has the end of an earlier fit"):
        assert epochs_trained(tmp_path) == []


def test_a_damaged_newest_checkpoint_is_skipped(tmp_path: Path) -> None:
    epochs_trained(tmp_path)
    newest = max(tmp_path.glob("*.checkpoint"))
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(TfmusterWarning, match=rf"{newest.name} is skipped: it is damaged or incomplete"):
        assert epochs_trained(tmp_path, epochs=3) == [1, 2]


def test_the_import_that_it_needs_is_quiet(tmp_path: Path) -> None:
    code = f"import tfmuster; tfmuster.checkpoint_callback({str(tmp_path)!r})"
    environ = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environ
    )
    assert done.stdout == done.stderr == ""


def test_no_time_to_save_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the signal comes, which is too late."""
    import keras

    import tfmuster

    monkeypatch.setenv("TFMUSTER_GRACE", "0")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(TfmusterError, match=r"^TFMUSTER_GRACE must be a positive number of seconds"):
        model.fit(
            np.ones((4, 1)),
            np.ones(4),
            verbose=0,
            callbacks=[tfmuster.checkpoint_callback(tmp_path / "folder")],
        )
    assert not (tmp_path / "folder").exists()
