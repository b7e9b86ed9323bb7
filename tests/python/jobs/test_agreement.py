"""Exchanges of small documents between real processes."""

from __future__ import annotations

import pytest

from support.clock import took_at_most
from support.rendezvous_job import Job, local_cluster

pytestmark = pytest.mark.timeout(60)

AGREE = """
import statistics
from tfmuster.rendezvous.task.agreement import agree

def told(*args, **options):
    answer = agree(*args, **options)
    say(event="told", equal=bool(answer), differences=[str(each) for each in answer.differences],
        absent=dict(answer.absent))
    return answer
"""


def told(result):
    return [event for event in result.events if event["event"] == "told"]


def test_all_tasks_learn_whether_and_where_they_differ(job: Job):
    cluster = local_cluster(3, ps=1, evaluator=1)
    then = (
        AGREE
        + """
told("fit", {"steps": 3, "batch": 64})
told("fit", {"steps": 78 if task.name == "worker 1" else 81})
seconds = []
for _ in range(40):
    begun = time.perf_counter()
    assert agree("fit", {"weights": "x" * 4000})
    seconds.append(time.perf_counter() - begun)
say(event="fast", median=statistics.median(seconds))
try:
    agree("fit", {"weights": "x" * 50_000})
except ValueError as error:
    say(event="large", text=str(error))
control.done()
"""
    )
    others = "assert agree('fit', {'nothing': 1}); control.wait_done(30); control.done()"
    for name in ("ps", "evaluator"):
        job.start(cluster, name, 0, then=AGREE + others)
    for started in [job.start(cluster, "worker", index, then=then) for index in range(3)]:
        result = started.result()
        assert result.code == 0, result.stderr
        first, second = told(result)
        assert first["equal"]
        assert second["differences"] == ["worker 0 and worker 2: 81, worker 1: 78"]
        (fast,) = [event for event in result.events if event["event"] == "fast"]
        # It takes 2 ms on a quiet machine.
        assert fast["median"] < 0.02
        assert "50014 bytes" in next(event["text"] for event in result.events if event["event"] == "large")


def test_a_late_task_is_named_with_what_it_does_and_later_hears_it(job: Job):
    cluster = local_cluster(2)
    waiting = job.start(cluster, "worker", 0, then=AGREE + "told('fit', {}, timeout=3.0); control.done()")
    late = """
from tfmuster.system.activity import ACTIVITY
ACTIVITY.watched = True
with ACTIVITY.call("predict", step=3):
    time.sleep(5)
told("fit", {}, timeout=1.0)
control.done()
"""
    result = job.start(cluster, "worker", 1, then=AGREE + late).result()
    for each in (waiting.result(), result):
        (answer,) = told(each)
        assert answer["absent"] == {"worker 1": "in predict, step 3, between two steps"}, each.stderr


@pytest.mark.parametrize("index", [0, 1])
def test_a_task_without_file_descriptors_is_still_heard(job: Job, index: int):
    """It waits for the other one, whose processor time can't be read then."""
    cluster = local_cluster(2)
    waiting = """
import contextlib, os
import numpy  # as every worker that trains: without its libraries, the C library opens one to end a thread
from tfmuster.system.activity import ACTIVITY
ACTIVITY.watched = True
told("fit", {})
with contextlib.suppress(OSError):
    while True:
        os.open(os.devnull, os.O_RDONLY)
told("fit", {}, timeout=12.0)
control.done()
"""
    late = """
told("fit", {})
time.sleep(6)
told("fit", {}, timeout=3.0)
control.done()
"""
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    tasks = [
        job.start(cluster, "worker", i, then=AGREE + (waiting if i == index else late), prefix=few)
        for i in range(2)
    ]
    for result in [task.result() for task in tasks]:
        assert result.code == 0, result.stderr
        assert [event["equal"] for event in told(result)] == [True, True], result.stderr
        assert took_at_most(told(result)[1]["seconds"], 10)
        assert "Traceback" not in result.stderr, result.stderr


def test_a_task_that_has_finished_or_waits_elsewhere_is_named_at_once(job: Job):
    cluster = local_cluster(3)
    job.start(cluster, "worker", 1, then="time.sleep(0.5); control.done()")
    inside = """
from tfmuster.system.activity import ACTIVITY
ACTIVITY.watched = True
with ACTIVITY.call("fit", epoch=1), ACTIVITY.execution():
    time.sleep(9)  # longer than the others take, also on a machine that does other things
control.done()
"""
    elsewhere = job.start(cluster, "worker", 2, then=inside)
    asks = """
time.sleep(2.5)
while True:
    told("evaluate", {})
    time.sleep(1)
"""
    result = job.start(cluster, "worker", 0, then=AGREE + asks).result()
    absent = {
        "worker 1": "has finished its program",
        "worker 2": "in fit, epoch 1, inside a step or another TensorFlow call",
    }
    answers = told(result)
    assert answers and all(answer["absent"] == absent for answer in answers)
    # One of the next calls learns that worker 2 waits for worker 1, which is a failure of the job.
    assert "worker 2 still needs worker 1, which finished its program" in result.text
    assert result.code == 1 and took_at_most(result.last["seconds"], 9)
    assert elsewhere.result().code == 0


def test_a_failure_of_the_job_ends_the_wait(job: Job):
    cluster = local_cluster(2)
    job.start(cluster, "worker", 1, then="time.sleep(0.5); raise ValueError('no such layer')")
    result = job.start(cluster, "worker", 0, then=AGREE + "told('fit', {})").result(20)
    assert result.code == 1 and "worker 1" in result.text and "no such layer" in result.text


def test_a_chief_that_does_not_respond_is_named_by_the_others(job: Job):
    env = {"TFMUSTER_STALL_TIMEOUT": "3"}
    cluster = local_cluster(2)
    watched = "from tfmuster.system.activity import ACTIVITY\nACTIVITY.watched = True\n"
    stop = "time.sleep(2); import signal; os.kill(os.getpid(), signal.SIGSTOP)"
    job.start(cluster, "worker", 0, then=watched + stop, env=env)
    waits = """
with ACTIVITY.execution():
    control.wait_done(20)
"""
    result = job.start(cluster, "worker", 1, then=watched + waits, env=env).result()
    assert result.code == 1 and result.last["failure"]["kind"] == "stalled"
    assert "stalled: worker 1 waits, and worker 0 has not responded for" in result.text
