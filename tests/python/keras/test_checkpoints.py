"""A training that is interrupted ends as if it had not been, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from tfmuster.errors import CheckpointError, TfmusterWarning


def final(folder: Path, worker: int = 0) -> dict[str, np.ndarray]:
    with np.load(folder / f"result-{worker}.npz") as file:
        return dict(file)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("workers", "kind", "every", "die_at"),
    [
        (0, "numpy", "epoch", [15, 25]),
        (0, "numpy", 4, [3, 15, 27]),
        (0, "dataset", 3, [14, 16]),
        (0, "repeated", 4, [13, 30]),
        (0, "executions", 6, [13]),
        (2, "numpy", 4, [15, 27]),
        (2, "dataset", 3, [14]),
        (2, "repeated", "epoch", [13]),
    ],
)
def test_bitwise_equal(tmp_path: Path, workers: int, kind: str, every: int | str, die_at: list[int]) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    succeeded(run_job("resuming.py", workers, undisturbed, kind, every))
    succeeded(run_job("resuming.py", workers, disturbed, kind, every, *die_at))
    expected = final(undisturbed)
    assert expected.keys() >= {"loss", "accuracy", "arr_0"}
    for worker in range(max(workers, 1)):
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
