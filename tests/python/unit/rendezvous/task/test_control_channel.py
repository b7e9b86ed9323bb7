"""The control channel of a task that has none, and a failure as an error."""

from __future__ import annotations

import pytest

from tfmuster.cluster.spec import Cluster
from tfmuster.errors import WorkerError
from tfmuster.rendezvous.failures import failure_text
from tfmuster.rendezvous.task.control_channel import ControlChannel


def test_without_a_line_nothing_happens():
    control = ControlChannel(Cluster(worker=["a:1"]).task("worker", 0))
    control.done()
    control.failed("no matter")
    control.report_exception(ValueError("x"))
    control.close()
    assert control.wait_done(0) and not control.active and control.first_failure is None


def test_failure_as_an_error_has_its_fields():
    control = ControlChannel(Cluster(worker=["a:1"]).task("worker", 0))
    control.raise_failure()
    control.first_failure = {
        "task": "worker 1",
        "host": "b",
        "pid": 12,
        "kind": "reported",
        "message": "disk full",
        "traceback": "",
        "time": 1.0,
    }
    assert failure_text(control.first_failure) == "worker 1 (host b, pid 12) failed: disk full"
    with pytest.raises(WorkerError) as caught:
        control.raise_failure()
    assert caught.value.fields["task"] == "worker 1" and caught.value.fields["reason"] == "disk full"
    assert caught.value.exit_code == 1
