"""The Keras callback that says how far a worker is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tfmuster.tracking.live.states import State
from tfmuster.worker.progress import progress_callback


def test_the_callback_writes_at_most_once_a_second(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[State] = []
    monkeypatch.setattr("tfmuster.worker.progress.say_state", said.append)
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    (callback,) = progress_callback(images_per_step=128)
    callback.set_params({"epochs": 5, "steps": 1000})
    callback.on_train_begin()
    callback.on_epoch_begin(1)
    for step in range(20):
        callback.on_train_batch_end(step, {"loss": 2.0})
        clock += 0.125
    assert [state.text for state in said] == [
        "tracing",
        "training  epoch 2/5  step 1/1000  loss 2.0000",
        "training  epoch 2/5  step 9/1000  loss 2.0000  1,024 images/s",
        "training  epoch 2/5  step 17/1000  loss 2.0000  1,024 images/s",
    ]
    assert said[1:3] == [
        State("training", epoch=2, epochs=5, step=1, steps=1000, metrics={"loss": 2.0}),
        State(
            "training",
            epoch=2,
            epochs=5,
            step=9,
            steps=1000,
            metrics={"loss": 2.0},
            steps_per_second=8.0,
            images_per_second=1024.0,
        ),
    ]
