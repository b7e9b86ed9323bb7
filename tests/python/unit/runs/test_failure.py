"""The first failure of a job: as JSON, as an error, and whether a restart can help."""

from __future__ import annotations

import json

import pytest

from tfmuster.runs.failure import Failure


@pytest.mark.parametrize(
    ("code", "error", "is_permanent"),
    [
        (1, "ValueError: x", False),
        (2, "", True),
        (3, "tfmuster.errors.RendezvousError: worker 1 is missing.", False),
        (1, "tfmuster.errors.CheckpointError: The disk is full.", False),
        (1, "tfmuster.errors.ModelError: No such model.", True),
        (-9, "", False),
        (None, "", False),
    ],
)
def test_which_failures_are_for_good(code: int | None, error: str, is_permanent: bool) -> None:
    note = {"error": error}
    failure = Failure.of("worker 0", host="h", code=code, time=0.0, note=note, last_lines=(), log="")
    assert failure.is_permanent == is_permanent


def test_failure_is_json_and_an_error() -> None:
    failure = Failure.of(
        "worker 1",
        host="node",
        code=-9,
        time=0.0,
        note={},
        last_lines=("a", "b"),
        log="runs/x/logs/worker-1.log",
    )
    assert failure.to_dict()["time"] == "1970-01-01T00:00:00.000+00:00"
    assert json.loads(json.dumps(failure.to_dict()))["signal"] == "SIGKILL"
    error = failure.to_error()
    assert (error.kind, error.exit_code) == ("worker", 1)
    assert str(error).splitlines()[0] == "worker 1 on node was ended by SIGKILL."
