"""The control line between real processes: done, failed, gone."""

from __future__ import annotations

import os
import signal
import time

import pytest

from support.clock import in_time
from support.rendezvous_job import Job, local_cluster

pytestmark = pytest.mark.timeout(60)

WAIT = "control.wait_done(20); control.done()"


def test_done_of_the_chief_ends_parameter_servers_and_evaluators(job: Job):
    cluster = local_cluster(2, chief=1, ps=1, evaluator=1)
    serving = [
        job.start(cluster, "ps", 0, then=WAIT),
        job.start(cluster, "evaluator", 0, then=WAIT),
        *(job.start(cluster, "worker", i, then=WAIT) for i in range(2)),
    ]
    chief = job.start(cluster, "chief", 0, then="time.sleep(0.5); control.done()")
    assert chief.result().code == 0
    for task in serving:
        result = task.result(5)
        assert (result.code, result.last["event"]) == (0, "end")


def test_who_was_busy_when_the_job_ended_learns_of_it(job: Job):
    cluster = local_cluster(1, evaluator=1)
    then = "time.sleep(2); assert control.joined and not control.active and control.wait_done(0)"
    evaluator = job.start(cluster, "evaluator", 0, then=then)
    job.start(cluster, "worker", 0)
    assert evaluator.result().code == 0


def test_without_a_chief_the_job_ends_when_all_workers_are_done(job: Job):
    cluster = local_cluster(2, ps=1)
    server = job.start(cluster, "ps", 0, then=WAIT)
    first = job.start(cluster, "worker", 0)
    second = job.start(cluster, "worker", 1, then="time.sleep(2); control.done()")
    ends = {task.name: task.result().last["seconds"] for task in (first, second, server)}
    assert all(seconds > 2 for seconds in ends.values())
    assert all(task.process.returncode == 0 for task in job.started)


def test_an_exception_reaches_everyone_with_its_cause(job: Job):
    cluster = local_cluster(3, evaluator=1)
    raising = job.start(cluster, "worker", 2, then="time.sleep(0.3); raise ValueError('no such layer')")
    others = [
        job.start(cluster, type, index, then=WAIT)
        for type, index in (("worker", 0), ("worker", 1), ("evaluator", 0))
    ]
    broken = raising.result()
    assert broken.code == 1 and "ValueError: no such layer" in broken.stderr
    for task in others:
        result = task.result(5)
        assert result.code == 1
        host = result.last["error"]["host"]
        assert result.text == f"worker 2 (host {host}, pid {raising.pid}) failed: ValueError: no such layer"
        assert "raise" not in result.last["error"]["reason"]
        assert "Traceback (most recent call last)" in result.last["error"]["traceback"]
        assert result.last["failure"]["kind"] == "exception"


CAUGHT = """
try:
    sys.exit(3)
except SystemExit as error:
    assert error.code == 3
"""


@pytest.mark.parametrize(
    ("ending", "code", "message"),
    [
        ("sys.exit(3)", 3, "exit code 3"),
        ("raise SystemExit(3)", 3, "exit code 3"),
        ("exit(3)", 3, "exit code 3"),
        ("sys.exit('no digits')", 1, "exit code 1: no digits"),
        (
            "import threading; threading.Thread(target=sys.exit, args=[4]).start(); sys.exit(3)",
            3,
            "exit code 3",
        ),
        (CAUGHT + "sys.exit(5)", 5, "exit code 5"),
    ],
)
@pytest.mark.parametrize("who", [0, 1])
def test_an_exit_code_is_a_failure(job: Job, who: int, ending: str, code: int, message: str):
    cluster = local_cluster(2)
    leaving = job.start(cluster, "worker", who, then=f"time.sleep(0.2)\n{ending}")
    other = job.start(cluster, "worker", 1 - who, then=WAIT).result(10)
    assert leaving.result().code == code
    host = other.last["error"]["host"]
    assert other.text == f"worker {who} (host {host}, pid {leaving.pid}) failed: {message}"


def test_what_a_verb_of_the_command_line_has_against_it_reaches_the_others(job: Job):
    cluster = local_cluster(2)
    verb = "from tfmuster.cli import main; sys.exit(main(['runs', 'show', '--runs', '/nowhere']))"
    failing = job.start(cluster, "worker", 1, then=verb)
    other = job.start(cluster, "worker", 0, then=WAIT).result(10)
    assert failing.result().code == 2
    assert f"pid {failing.pid}) failed: A run must be given by " in other.text


@pytest.mark.parametrize("ending", ["sys.exit()", "sys.exit(0)", "raise SystemExit", CAUGHT, "exit(False)"])
def test_to_leave_without_an_exit_code_is_no_failure(job: Job, ending: str):
    cluster = local_cluster(2)
    leaving = job.start(cluster, "worker", 1, then=ending)
    other = job.start(cluster, "worker", 0, then="time.sleep(1); assert control.first_failure is None")
    assert (other.result(10).last["event"], leaving.result().code) == ("end", 0)


@pytest.mark.timed
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_is_named(job: Job, victim: int):
    cluster = local_cluster(3)
    tasks = job.start_all(cluster, then=WAIT)
    for task in tasks:
        task.wait_for_go()
    began = time.monotonic()
    os.kill(tasks[victim].pid, signal.SIGKILL)
    for index in {0, 1, 2} - {victim}:
        result = tasks[index].result(5)
        host = result.last["error"]["host"]
        assert result.text == (
            f"worker {victim} (host {host}, pid {tasks[victim].pid}) disappeared: "
            "its process ended or was killed"
        )
    assert in_time(began, 3)


def test_the_earliest_failure_is_the_cause_whoever_reports_first(job: Job):
    cluster = local_cluster(3)
    job.start(cluster, "worker", 1, then="time.sleep(0.2); control.failed('collective broke'); time.sleep(1)")
    cause = "time.sleep(0.6); control.failed('disk full', age=2.0); time.sleep(1)"
    job.start(cluster, "worker", 2, then=cause)
    chief = job.start(cluster, "worker", 0, then="time.sleep(1.2); " + WAIT)
    assert chief.result().last["error"]["reason"] == "disk full"
    assert chief.process.returncode == 1


def test_a_callback_hears_of_it_once(job: Job):
    cluster = local_cluster(2)
    listening = (
        "seen = []; control.on_failure(seen.append); time.sleep(1.5); "
        "say(event='seen', tasks=[f['task'] for f in seen], mine=control.first_failure['task'])"
    )
    chief = job.start(cluster, "worker", 0, then=listening)
    job.start(cluster, "worker", 1, then="time.sleep(0.3); control.failed({'message': 'why'})")
    seen = next(event for event in chief.result().events if event["event"] == "seen")
    assert seen["tasks"] == ["worker 1"] and seen["mine"] == "worker 1"


@pytest.mark.parametrize("wait", ["control.wait_done(20)", "control.failed('mine')"])
def test_the_main_thread_waits_for_the_callbacks_the_last_of_which_is_called_first(job: Job, wait: str):
    # The last one writes the stacks, which the first one changes: it aborts what the main thread waits for.
    cluster = local_cluster(2)
    listening = (
        "control.on_failure(lambda failure: say(event='aborted'))\n"
        "control.on_failure(lambda failure: (time.sleep(0.7), say(event='written')))\n"
        "time.sleep(0.8)\n"
        f"{wait}\n"
    )
    waiting = job.start(cluster, "worker", 1, then=listening)
    job.start(cluster, "worker", 0, then="time.sleep(0.5); control.failed('why'); time.sleep(2)")
    events = [event["event"] for event in waiting.result().events]
    assert [event for event in events if event in ("written", "aborted")] == ["written", "aborted"]


def test_leaving_after_done_is_no_failure_and_exit_means_done(job: Job):
    cluster = local_cluster(3)
    job.start(cluster, "worker", 1)
    job.start(cluster, "worker", 2, then="pass")
    chief = job.start(
        cluster, "worker", 0, then="time.sleep(1); assert control.first_failure is None; " + "control.done()"
    )
    assert chief.result().last["event"] == "end"


def test_a_second_muster_gives_the_same_line_and_forked_children_have_none(job: Job):
    then = (
        "from tfmuster.rendezvous.task.control_channel import ControlChannel\n"
        "assert muster(task) is control is ControlChannel.current()\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if ControlChannel.current() is None else 9)\n"
        "assert os.waitpid(child, 0)[1] == 0; control.done()"
    )
    cluster = local_cluster(2)
    for task in job.start_all(cluster, then=then):
        assert task.result().last["event"] == "end"
