"""What a task says of itself in the run directory."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest

from tfmuster.tracking.live.states import (
    State,
    read_events,
    read_serving,
    read_shares,
    read_states,
    say_state,
    say_waiting,
)
from tfmuster.worker.progress import progress_callback


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (
            {"text": "…", "waiting": ["worker 0"], "address": "a:1", "reason": "no answer yet"},
            "waiting for worker 0, the chief, at a:1: no answer yet",
        ),
        ({"text": "…", "waiting": ["worker 2", "worker 3"]}, "waiting for worker 2, worker 3"),
        (
            {"text": "…", "waiting": [f"worker {i}" for i in range(10)]},
            f"waiting for {', '.join(f'worker {i}' for i in range(8))} and 2 more",
        ),
        ({"text": "all 4 tasks are here", "waiting": []}, "waiting"),
    ],
)
def test_who_is_waited_for(task: Path, progress: dict, words: str) -> None:
    say_waiting(progress)
    (state,) = read_states(task).values()
    assert state.text == words == json.loads((task / "states" / "worker-1.json").read_text())["text"]
    assert (state.phase, list(state.waiting)) == (words.split(maxsplit=1)[0], progress["waiting"])


def test_the_shares_of_a_training_stay_when_it_has_ended(task: Path) -> None:
    say_state(State("training", sum_share=0.75, wait_share=0.5, waits_for="worker 0"))
    assert read_shares(task) == {}
    say_state(State("trained", sum_share=0.25, wait_share=0.125, waits_for="worker 2"))
    say_state(State("testing"))
    assert read_shares(task) == {
        "worker 1": {"sum_share": 0.25, "wait_share": 0.125, "waits_for": "worker 2"}
    }
    assert [event["phase"] for event in read_events(task)["worker 1"]] == ["training", "trained", "testing"]


def test_a_state_is_read_as_it_was_written(task: Path) -> None:
    known = State(
        "training",
        epoch=2,
        epochs=5,
        step=117,
        steps=400,
        metrics={"accuracy": 0.5, "loss": float("inf"), "auc": 0.25},
        steps_per_second=80.0,
        images_per_second=10_240.0,
        sum_share=0.5,
        wait_share=0.3125,
        waits_for="worker 2",
    )
    before = time.time()
    say_state(known)
    written = json.loads((task / "states" / "worker-1.json").read_text())
    assert before <= written.pop("time") <= time.time()
    assert written == {
        "text": "training  epoch 2/5  step 117/400  loss inf  accuracy 0.5000  10,240 images/s  "
        "waits 31% for worker 2",
        "phase": "training",
        "epoch": 2,
        "epochs": 5,
        "step": 117,
        "steps": 400,
        "metrics": {"accuracy": 0.5, "loss": "inf", "auc": 0.25},
        "steps_per_second": 80.0,
        "images_per_second": 10_240.0,
        "sum_share": 0.5,
        "wait_share": 0.3125,
        "waits_for": "worker 2",
        "serves": False,
    }
    (state,) = read_states(task).values()
    assert dataclasses.replace(state, time=None) == known
    assert state.text == written["text"] and state.time is not None
    say_state(State("training", epoch=1, step=1, metrics={"loss": float("nan")}))
    (state,) = read_states(task).values()
    assert state.text == "training  epoch 1  step 1  loss nan"
    assert state.to_dict()["metrics"]["loss"] != state.to_dict()["metrics"]["loss"]


def test_every_field_is_written_and_read() -> None:
    example = {
        "str": "x",
        "bool": True,
        "int | None": 3,
        "float | None": 2.5,
        "tuple[str, ...]": ("worker 1",),
        "Mapping[str, float]": {"loss": 1.0},
    }
    state = State(**{each.name: example[each.type] for each in dataclasses.fields(State)})
    assert State.from_dict(state.to_dict()) == state


def test_who_serves_is_read_from_the_fields(task: Path) -> None:
    say_state(State("serving"))
    assert read_serving(task) == set()
    say_state(State("serving", serves=True))
    assert read_serving(task) == {"worker 1"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"text": "training"}', '{"phase": "training", "step": "x"}', '{"phase": "t", "metrics": 1}'],
)
def test_what_is_no_state_says_nothing(task: Path, content: str) -> None:
    (task / "states").mkdir()
    (task / "states" / "worker-1.json").write_text(content)
    assert read_states(task) == {} and read_serving(task) == set()


@pytest.mark.parametrize(
    ("state", "text", "beside_bar"),
    [
        (
            State(
                "training", epoch=1, epochs=2, step=3, steps=10, metrics={"loss": 1.5}, steps_per_second=7.25
            ),
            "training  epoch 1/2  step 3/10  loss 1.5000  7.2 steps/s",
            "epoch 1/2  loss 1.5000  7.2 steps/s",
        ),
        (State("training"), "training", "training"),
        (State("stopped"), "stopped by a signal", "stopped by a signal"),
        (State("waiting", waiting=("worker 2",)), "waiting for worker 2", "waiting for worker 2"),
        (State("tracing"), "tracing", "tracing"),
        (State("importing", library="JAX", seconds=3.4), "importing JAX  3 s", "importing JAX  3 s"),
        (State("first step", seconds=0.5), "running its first step  0 s", "running its first step  0 s"),
        (State("running"), "running", "running"),
    ],
)
def test_a_state_in_words(state: State, text: str, beside_bar: str) -> None:
    assert (state.text, state.text_beside_bar) == (text, beside_bar)


def test_nothing_is_written_outside_a_job_or_where_it_can_not_be(
    task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFMUSTER_RUN_DIR", str(task / "gone"))
    say_state(State("training"))
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": []}}')
    say_state(State("training"))
    monkeypatch.delenv("TFMUSTER_RUN_DIR")
    say_state(State("training"))
    assert progress_callback() == [] and list(task.iterdir()) == []
