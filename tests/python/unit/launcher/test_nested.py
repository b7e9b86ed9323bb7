"""A worker of a job launches no other one, unless its user wants that."""

from __future__ import annotations

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.job import Job, launch_options
from tfmuster.launcher.supervise.restarts import Attempt

ATTEMPT = Attempt(0, 0)


@pytest.fixture(autouse=True)
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFMUSTER_JOB", "0" * 32)


def refused(**settings: bool) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        Job(["train.py"], **settings)
    assert caught.value.fields["reason"] == "nested"
    return caught.value


def test_the_error_has_the_line_that_launches() -> None:
    error = refused()
    assert str(error).startswith("A worker of a job must not launch another one: each of its workers would")
    assert (
        f"{error.found}".endswith('Job(["train.py"], **settings)')
        and "test_nested.py, line" in f"{error.found}"
    )
    assert "write launch(..., control=Control(allow_nested=True)), or set TFMUSTER_ALLOW_NESTED=1" in str(
        error.fix
    )


def test_one_level_is_allowed_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(["train.py"], allow_nested=True)
    # A launcher in the background, and one that resumes the run, are in the same place.
    assert "--allow-nested" in launch_options(job, None)
    variables = job.variables(ATTEMPT)
    monkeypatch.setenv("TFMUSTER_ALLOW_NESTED", "1")
    assert Job(["train.py"]).variables(ATTEMPT)["TFMUSTER_NESTED"] == "1"
    monkeypatch.setenv("TFMUSTER_NESTED", variables["TFMUSTER_NESTED"])
    for settings in ({}, {"allow_nested": True}):
        assert "A job that a worker has launched must not launch another one" in str(refused(**settings))


def test_a_launcher_of_its_own_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFMUSTER_JOB")
    assert "TFMUSTER_NESTED" not in Job(["train.py"]).variables(ATTEMPT)
