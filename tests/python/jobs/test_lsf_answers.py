"""LSF without one: its script, and answers in the forms of its command reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import plant
from tfmuster.launcher.engines.base import availability
from tfmuster.launcher.engines.batch_commands import JobState, Phase
from tfmuster.launcher.engines.lsf import Lsf
from tfmuster.launcher.job import Job
from tfmuster.options import places

_HEAD = "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME\n"
_ROW = "4711    me      {}  normal     head        node1:node2 train      Nov 22 06:18\n"


@pytest.mark.parametrize(
    ("word", "state"),
    [
        (
            "PEND",
            JobState(Phase.WAITING, "Job's requirements for resource reservation not satisfied: 2 hosts"),
        ),
        (
            "PSUSP",
            JobState(Phase.WAITING, "Job's requirements for resource reservation not satisfied: 2 hosts"),
        ),
        ("RUN", JobState(Phase.RUNNING)),
        ("UNKWN", JobState(Phase.RUNNING)),
        ("DONE", JobState(Phase.OVER)),
        ("EXIT", JobState(Phase.OVER)),
    ],
)
def test_what_lsf_says_of_a_job(planted: Path, word: str, state: JobState) -> None:
    (planted.parent / "row").write_text(_HEAD + _ROW.format(word))
    reason = " Job's requirements for resource reservation not satisfied: 2 hosts;\n"
    (planted.parent / "reasons").write_text(_HEAD + _ROW.format(word) + reason)
    plant(planted, bjobs=f"case $1 in -p) cat {planted.parent}/reasons;; *) cat {planted.parent}/row;; esac")
    assert Lsf().state("4711") == state


def test_a_job_that_lsf_does_not_know(planted: Path) -> None:
    plant(planted, bjobs="echo 'Job <4711> is not found' >&2; exit 255")
    assert Lsf().state("4711").phase is Phase.OVER
    plant(planted, bjobs="echo 'LSF is down. Please wait ...' >&2; exit 255")
    assert Lsf().state("4711").phase is Phase.UNKNOWN


def test_the_number_of_a_job() -> None:
    assert Lsf().number_of("Job <4711> is submitted to default queue <normal>.\n") == "4711"
    assert Lsf().number_of("Request aborted by esub. Job not submitted.\n") is None


def test_how_a_job_has_ended(planted: Path) -> None:
    lines = (
        "Sun Nov 22 06:20:00: Exited with exit code 140. The CPU time used is 0.1 seconds.",
        "Sun Nov 22 06:20:00: Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run ti",
        "                     me limit.",
    )
    (planted.parent / "said").write_text("\n".join(lines) + "\n")
    plant(planted, bjobs=f"cat {planted.parent}/said")
    told = "Exited with exit code 140, TERM_RUNLIMIT: job killed after reaching LSF run time limit"
    assert Lsf().ending("4711", "") == told
    plant(planted, bjobs="exit 255")
    assert Lsf().ending("4711", "") == ""


def test_the_script() -> None:
    engine = Lsf(places.Lsf("-q gpu", '-R "span[ptile=2]"'))
    script = engine.script(Job(["train.py"], workers=3, ps=1, gpus_per_worker=2, name="1 a"))
    lines = ("-J run1_a", "-rn", "-n 4", '-gpu "num=2/task"', "-q gpu", '-R "span[ptile=2]"')
    assert script.startswith("#!/bin/sh\n" + "".join(f"#BSUB {line}\n" for line in lines))


def test_whether_it_can_be_used(planted: Path) -> None:
    assert availability()["lsf"].startswith("no: bsub is not on PATH")
    plant(planted, bsub="", bjobs="", bkill="", blaunch="", lsid="echo 'IBM Spectrum LSF Standard 10.1.0.13'")
    assert availability()["lsf"] == "yes: IBM Spectrum LSF Standard 10.1.0.13"
    plant(planted, lsid="echo 'ls_getclustername(): LIM is down; try later' >&2; exit 255")
    assert "no daemon answers (ls_getclustername(): LIM is down" in availability()["lsf"]
