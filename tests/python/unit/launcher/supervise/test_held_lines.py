"""The traceback of a worker that fails is held back; that of one that continues is shown."""

from __future__ import annotations

import pytest

from tfmuster.launcher.supervise import worker_process
from tfmuster.launcher.supervise.worker_process import HeldLines

TRACE = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "ValueError: no"]
NOTE = {"error": TRACE[-1], "traceback": "\n".join(TRACE) + "\n"}


def test_the_traceback_of_a_failure_is_not_shown() -> None:
    held = HeldLines()
    assert held.pass_on(["Epoch 1", *TRACE[:2]]) == ["Epoch 1"]
    assert held.pass_on([*TRACE[2:], "bye"]) == []
    assert held.overdue(NOTE) == []
    assert held.end(NOTE) == ["bye"]
    assert held.end(NOTE) == []


def test_what_a_program_survives_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldLines()
    assert held.pass_on(TRACE) == []
    assert held.overdue({}) == []
    monkeypatch.setattr(worker_process, "_HELD_SECONDS", 0.0)
    assert held.overdue({}) == TRACE
    assert held.pass_on(["Epoch 2"]) == ["Epoch 2"]
    assert held.pass_on(TRACE) == [] and held.end({}) == TRACE


def test_what_a_program_has_said_after_an_earlier_traceback_is_shown() -> None:
    held = HeldLines()
    handled = [TRACE[0], '  File "train.py", line 1, in <module>', "KeyError: 1", "it goes on"]
    printed = [*TRACE[:1], '  File "keras.py", line 9, in fit', *TRACE[1:]]  # not as in the note
    assert held.pass_on([*handled, *printed]) == []
    assert held.end(NOTE) == handled


def test_the_tracebacks_of_causes_belong_to_the_last_one() -> None:
    held = HeldLines()
    cause = [TRACE[0], '  File "train.py", line 1, in <module>', "KeyError: 1", ""]
    cause += ["During handling of the above exception, another exception occurred:", ""]
    assert held.pass_on(["Epoch 1", *cause, *TRACE[:1], '  File "x.py", line 9, in f', *TRACE[1:]]) == [
        "Epoch 1"
    ]
    assert held.end(NOTE) == []
