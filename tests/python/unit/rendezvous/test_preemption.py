"""All tasks leave at the first point that none of them has passed."""

from __future__ import annotations

import itertools

import pytest

from tfmuster.rendezvous.preemption import SavingPoint

TASKS = ["worker 0", "worker 1", "worker 2"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_point_is_after_those_of_all(order: tuple[int, ...]) -> None:
    point = SavingPoint(TASKS)
    asked = point.ask({"signal": 15})
    assert asked == [(task, {"type": "leave", "signal": 15}) for task in TASKS]
    passed = [7, 9, 8]
    *early, last = [point.take(TASKS[each], {"points": passed[each]}) for each in order]
    assert early == [[], []]
    assert last == [(task, {"type": "leave-at", "point": 10}) for task in TASKS]


def test_the_first_signal_counts() -> None:
    point = SavingPoint(TASKS)
    assert point.ask({"signal": 10})
    assert point.ask({"signal": 15}) == []


def test_nobody_waits_for_a_task_that_has_finished() -> None:
    point = SavingPoint(TASKS)
    assert point.done("worker 2") == []
    assert [task for task, _ in point.ask({"signal": 15})] == TASKS[:2]
    point.take("worker 0", {"points": 3})
    assert point.done("worker 1") == [("worker 0", {"type": "leave-at", "point": 4})]
    assert point.done("worker 0") == []


@pytest.mark.parametrize("signal", [0, 65, -1, "x", None])
def test_what_is_no_signal_is_refused(signal: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        SavingPoint(TASKS).ask({"signal": signal})
