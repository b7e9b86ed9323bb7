"""Which task the others wait for, from reports alone."""

from __future__ import annotations

import math

import pytest

from tfmuster.rendezvous.chief.stalls import TaskReport, cannot_come, find_stall

NOW = 1000.0


def report(task, *, inside=False, executions=7, still=100.0, unchanged=None, heard=NOW, **more):
    fields = {name: more.pop(name) for name in ("asked", "about", "done") if name in more}
    doing = {
        "call": "fit",
        "epoch": 1,
        "step": 5,
        "steps": 9,
        "inside": inside,
        "executions": executions,
        "still": still,
        "unchanged": still if unchanged is None else unchanged,
        **more,
    }
    return TaskReport(task, "host", 12, doing, heard, **fields)


def stall_of(*reports, limit=60.0):
    return find_stall({each.task: each for each in reports}, limit, NOW)


def test_a_task_that_rests_while_another_waits_is_named():
    stall = stall_of(report("worker 0", inside=True, executions=8), report("worker 1"))
    assert [each.task for each in stall.awaited] == ["worker 1"]
    place = "in fit, epoch 1, step 5 of 9"
    assert stall.message.splitlines() == [
        "stalled: worker 0 waited 100 s for worker 1.",
        f"  worker 0 (host host, pid 12): {place}, inside a step or another TensorFlow call",
        f"  worker 1 (host host, pid 12): {place}, between two steps",
    ]


@pytest.mark.parametrize("limit", [101.0, math.inf])
def test_nobody_is_named_before_the_limit(limit):
    assert stall_of(report("worker 0", inside=True), report("worker 1"), limit=limit) is None


def test_a_slow_worker_that_moves_is_never_named():
    waiting = report("worker 0", inside=True, executions=8)
    assert stall_of(waiting, report("worker 1", still=1.0)) is None
    # It computes in a long step, and has not left it.
    assert stall_of(waiting, report("worker 1", inside=True, still=1.0, unchanged=500.0)) is None
    # A third one rests in a step: both may wait for the one that moves.
    assert stall_of(waiting, report("worker 1", still=1.0), report("worker 2", inside=True)) is None


def test_a_program_outside_of_tensorflow_does_not_stall():
    assert stall_of(report("worker 0"), report("worker 1")) is None


def test_a_silent_task_rests_since_it_was_heard():
    stall = stall_of(report("worker 0", inside=True), report("worker 1", still=0.0, heard=NOW - 61))
    assert [each.task for each in stall.awaited] == ["worker 1"]


def test_workers_that_wait_for_each_other_need_not_have_begun_at_the_same_moment():
    """One is in an exchange and the other in TensorFlow, and only one has waited for the whole limit."""
    asks = report("worker 0", asked=NOW - 59, about="fit")
    stall = stall_of(asks, report("worker 1", inside=True, unchanged=61.0))
    assert stall.message.startswith("stalled: all workers have waited for each other for 61 s.\n")


def test_if_all_wait_the_one_whose_data_ended_is_named_then_the_one_behind_then_all():
    inside = [report(f"worker {index}", inside=True) for index in range(3)]
    assert "all workers have waited for each other for 100 s" in stall_of(*inside).message
    inside[1].doing["executions"] = 6
    assert [each.task for each in stall_of(*inside).awaited] == ["worker 1"]
    inside[2].doing["ended"] = 44
    stall = stall_of(*inside)
    assert [each.task for each in stall.awaited] == ["worker 2"]
    assert "its data ended after 44 batches" in stall.message


def test_data_that_ended_on_one_worker_only_are_a_stall_before_the_limit():
    ended = report("worker 1", inside=True, ended=44, still=0.5, unchanged=4.5)
    stall = stall_of(report("worker 0", inside=True, still=4.5), ended, limit=math.inf)
    assert "worker 0 waited 4 s for worker 1, whose data ended earlier." in stall.message
    # It still reads, is in an execution before, or is about to come to its end, too.
    for other in ({"still": 0.5}, {"executions": 6}, {"ended": 44}):
        waiting = report("worker 0", inside=True, **{"still": 4.5, **other})
        assert stall_of(waiting, ended, limit=math.inf) is None
    soon = report("worker 1", inside=True, ended=44, still=0.5, unchanged=1.0)
    assert stall_of(report("worker 0", inside=True), soon, limit=math.inf) is None


def test_a_worker_that_waits_in_an_exchange_for_one_that_rests_names_it():
    stall = stall_of(report("worker 0", asked=NOW - 61, about="evaluate"), report("worker 1"))
    assert "waited 61 s for worker 1" in stall.message
    assert "at the beginning of evaluate, waiting for the others" in stall.message


def test_a_finished_program_can_not_come():
    ended = report("worker 1", done=True, executions=7)
    waiting = report("worker 0", inside=True, executions=8, still=0.5, unchanged=2.5)
    stall = stall_of(waiting, ended, limit=math.inf)
    assert "worker 0 still needs worker 1, which finished its program" in stall.message
    # It may be about to leave it.
    moving = report("worker 0", inside=True, executions=8, still=0.5, unchanged=1.5)
    assert stall_of(moving, ended) is None
    # The last step takes longer here.
    assert stall_of(report("worker 0", inside=True, executions=7, still=0.5), ended) is None
    # A custom loop counts nothing, so only motion tells.
    custom = {"executions": 0, "call": "", "inside": True}
    assert stall_of(report("worker 0", still=9.0, **custom), ended) is None
    assert stall_of(report("worker 0", still=11.0, **custom), ended, limit=math.inf) is not None


def test_a_finished_program_is_named_also_within_a_short_limit():
    waiting = report("worker 0", inside=True, still=6.0)
    stall = stall_of(waiting, report("worker 1", done=True), limit=5.0)
    assert [each.task for each in stall.awaited] == ["worker 1"]
    assert stall.message.startswith("stalled: worker 0 still needs worker 1, which finished its program.")


def test_who_waits_in_a_later_execution_can_not_come_to_an_exchange():
    waiting = [report("worker 0", executions=7)]
    assert cannot_come(report("worker 1", inside=True, executions=8), waiting)
    assert not cannot_come(report("worker 1", inside=True, executions=7), waiting)
    assert not cannot_come(report("worker 1", executions=8), waiting)
    assert cannot_come(report("worker 1", done=True), waiting)


def test_many_tasks_are_not_all_listed():
    reports = [report(f"worker {index}", inside=True) for index in range(100)] + [report("worker 100")]
    text = stall_of(*reports).message
    assert "worker 100" in text.splitlines()[0] and len(text) < 2000
