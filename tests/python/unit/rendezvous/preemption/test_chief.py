"""All tasks leave at the first point that none of them has passed."""

from __future__ import annotations

import itertools

import pytest

from tfmuster.rendezvous.preemption.chief import Departure

TASKS = ["worker 0", "worker 1", "worker 2"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_point_is_after_those_of_all(order: tuple[int, ...]) -> None:
    departure = Departure(TASKS)
    asked = departure.ask({"signal": 15})
    assert asked == [(task, {"type": "leave", "signal": 15}) for task in TASKS]
    passed = [7, 9, 8]
    *early, last = [departure.take(TASKS[each], {"points": passed[each]}) for each in order]
    assert early == [[], []]
    assert last == [(task, {"type": "leave-at", "point": 10}) for task in TASKS]


def test_the_first_signal_counts() -> None:
    departure = Departure(TASKS)
    assert departure.ask({"signal": 10})
    assert departure.ask({"signal": 15}) == []


def test_nobody_waits_for_a_task_that_has_finished() -> None:
    departure = Departure(TASKS)
    assert departure.done("worker 2") == []
    assert [task for task, _ in departure.ask({"signal": 15})] == TASKS[:2]
    departure.take("worker 0", {"points": 3})
    assert departure.done("worker 1") == [("worker 0", {"type": "leave-at", "point": 4})]
    assert departure.done("worker 0") == []


@pytest.mark.parametrize("signal", [0, 65, -1, "x", None])
def test_what_is_no_signal_is_refused(signal: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Departure(TASKS).ask({"signal": signal})
