"""What all batch systems share."""

from __future__ import annotations

import pytest

from support.batch_systems import SYSTEMS
from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.base import engine_for, place_for
from tfmuster.launcher.engines.batch import safe_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [("train", "train"), ("1st try: $(x)/é,b", "run1st_try_x_b"), ("", "run"), ("a" * 200, "a" * 15)],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name, 15) == safe[:15]


@pytest.mark.parametrize("name", SYSTEMS)
def test_hosts_are_refused(name: str) -> None:
    with pytest.raises(LaunchError, match="chooses the nodes"):
        engine_for(place_for(name, {"hosts": "node1"}))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("option", ["no option", "-l a=b\nsecond line"])
def test_an_option_is_one_line_and_begins_as_one(name: str, option: str) -> None:
    with pytest.raises(LaunchError, match="without control characters, and must start with -"):
        engine_for(place_for(name, {"backend_options": option}))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("slurm", "--array=1-4"),
        ("slurm", "-a 1-4"),
        ("sge", "-t 1-4"),
        ("pbs", "-J 1-4"),
        ("pbs", "-l walltime=1:00:00 -t 1-4"),
        ("lsf", '-J "many[1-4]"'),
    ],
)
def test_an_array_of_jobs_is_no_run(name: str, option: str) -> None:
    with pytest.raises(LaunchError, match="must be one run") as caught:
        engine_for(place_for(name, {"backend_options": option}))
    assert caught.value.fields["reason"] == "array"
    assert option in str(caught.value.found) and "for number in" in str(caught.value.fix)


@pytest.mark.parametrize(
    ("name", "option"),
    [("slurm", "--account=a"), ("slurm", "-A a"), ("sge", "-terse"), ("pbs", "-j oe"), ("lsf", "-J many")],
)
def test_other_options_are_none(name: str, option: str) -> None:
    engine_for(place_for(name, {"backend_options": option}))


@pytest.mark.parametrize(
    ("limit", "seconds"), [("3", 180), ("2:30", 150), ("0:2:30", 150), ("0-0:02", 120), ("0-0:2:59", 179)]
)
def test_a_job_that_is_requeued_has_time_to_train(limit: str, seconds: int) -> None:
    for option in (f"--time={limit}", f"-t {limit}"):
        with pytest.raises(LaunchError, match="time to train before its notice") as caught:
            engine_for(place_for("slurm", {"backend_options": option, "requeue": True}))
        assert f"a time limit of {seconds} s, and a notice 120 s before" in str(caught.value.found)
        engine_for(place_for("slurm", {"backend_options": option}))


@pytest.mark.parametrize(
    "options", ["--time=4", "--time=2-12", "-t 1:0:0", "--time=3 --signal=B:USR1@30", "--mem=3"]
)
def test_longer_limits_and_shorter_notices_are_taken(options: str) -> None:
    engine_for(place_for("slurm", {"backend_options": options, "requeue": True}))
