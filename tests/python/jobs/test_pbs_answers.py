"""PBS without one: its script, and answers in the forms of OpenPBS, Torque and slurm-wlm-torque."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import plant
from tfmuster.launcher.engines.base import availability
from tfmuster.launcher.engines.batch_commands import JobState, Phase
from tfmuster.launcher.engines.pbs import Pbs, _exported
from tfmuster.launcher.job import Job
from tfmuster.options import places

OPENPBS = "echo 'pbs_version = 23.06.06'"
TORQUE = "echo 'Version: 6.1.3' >&2"


def said(folder: Path, text: str) -> str:
    (folder.parent / "said").write_text(text)
    return f"cat {folder.parent}/said"


_OPENPBS_JOB = """Job Id: 12.head
    Job_Name = train
    Job_Owner = me@head
    job_state = {}
    queue = workq
    Variable_List = PBS_O_HOME=/home/me,PBS_O_LANG=C.UTF-8,
\tPBS_O_WORKDIR=/home/me/job_state = R,COLOUR=green
    comment = {}
"""
_WRAPPERS_JOB = """Job Id:\t12
\tJob_Name = train
\tJob_Owner = me@head
\tjob_state = {}
\tqueue = all
"""


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (
            _OPENPBS_JOB.format(
                "Q", "Not Running: Insufficient amount of resource: ncpus \n\t(R: 99 A: 2 T: 2)"
            ),
            JobState(Phase.WAITING, "Not Running: Insufficient amount of resource: ncpus (R: 99 A: 2 T: 2)"),
        ),
        (_OPENPBS_JOB.format("H", "held"), JobState(Phase.WAITING, "held")),
        (_OPENPBS_JOB.format("R", "Job run at Sun Nov 22 at 06:18"), JobState(Phase.RUNNING)),
        (_OPENPBS_JOB.format("E", "ending"), JobState(Phase.RUNNING)),
        (_OPENPBS_JOB.format("F", "over"), JobState(Phase.OVER)),
        (_WRAPPERS_JOB.format("Q"), JobState(Phase.WAITING)),
        (_WRAPPERS_JOB.format("H"), JobState(Phase.WAITING, "it is held")),
        (_WRAPPERS_JOB.format("R"), JobState(Phase.RUNNING)),
        (_WRAPPERS_JOB.format("C"), JobState(Phase.OVER)),
    ],
)
def test_what_pbs_says_of_a_job(planted: Path, text: str, state: JobState) -> None:
    plant(planted, qstat=said(planted, text))
    assert Pbs().state("12.head") == state


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        ("echo 'qstat: Unknown Job Id 12.head' >&2; exit 153", Phase.OVER),
        ("echo 'qstat: 12.head Job has finished, use -x or -H to obtain it' >&2; exit 35", Phase.OVER),
        ("exit 153", Phase.OVER),
        ("echo 'Connection refused' >&2; exit 111", Phase.UNKNOWN),
    ],
)
def test_a_job_that_pbs_does_not_know(planted: Path, answer: str, phase: Phase) -> None:
    plant(planted, qstat=answer)
    assert Pbs().state("12.head").phase is phase


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("12.head.example.org\n", "12.head.example.org"),
        ("12\n", "12"),
        ("7[].head\n", "7[].head"),
        ("no\n", None),
    ],
)
def test_the_number_of_a_job(answer: str, number: str | None) -> None:
    assert Pbs().number_of(answer) == number


def test_how_a_job_has_ended(planted: Path) -> None:
    text = "Job Id: 12.head\n    Exit_status = 271\n    comment = Job run at Sun Nov 22 and failed\n"
    plant(planted, qstat=said(planted, text))
    assert Pbs().ending("12.head", "") == "exit status 271, Job run at Sun Nov 22 and failed"
    plant(planted, qstat="exit 153")
    assert Pbs().ending("12.head", "") == ""


@pytest.mark.parametrize(
    ("version", "gpus", "options", "line"),
    [
        (OPENPBS, None, (), "#PBS -l select=3:ncpus=1:mpiprocs=1"),
        (OPENPBS, 2, (), "#PBS -l select=3:ncpus=1:mpiprocs=1:ngpus=2"),
        (TORQUE, None, (), "#PBS -l nodes=3:ppn=1"),
        (TORQUE, 1, (), "#PBS -l nodes=3:ppn=1:gpus=1"),
        (
            OPENPBS,
            None,
            ("-l walltime=1:00:00",),
            "#PBS -l select=3:ncpus=1:mpiprocs=1\n#PBS -l walltime=1:00:00",
        ),
    ],
)
def test_hosts_are_asked_for(
    planted: Path, version: str, gpus: int | None, options: tuple[str, ...], line: str
) -> None:
    plant(planted, qstat=version)
    script = Pbs(places.Pbs(*options)).script(Job(["train.py"], workers=3, gpus_per_worker=gpus))
    assert line in script


@pytest.mark.parametrize("option", ["-l select=3:ncpus=4", "-l walltime=9,nodes=1:ppn=3", "-q x -lselect=1"])
def test_an_option_may_ask_for_hosts_instead(planted: Path, option: str) -> None:
    plant(planted, qstat=OPENPBS)
    script = Pbs(places.Pbs(option)).script(Job(["train.py"], workers=3))
    assert f"#PBS {option}\n" in script
    assert "mpiprocs" not in script


def test_variables_of_one_host_stay_there() -> None:
    kept = {"LD_LIBRARY_PATH": "/opt/cuda", "COLOUR": "grün"}
    left = {
        "PBS_JOBID": "1",
        "HOME": "/root",
        "BASH_FUNC_x%%": "() { :; }",
        "TFMUSTER_TOKEN": "x",
        "A": "\udcff",
    }
    assert _exported({**kept, **left}) == kept


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ({"qstat": f'[ "$1" = --version ] && {OPENPBS}'}, "yes: pbs_version = 23.06.06"),
        ({"qstat": "echo 'SGE 8.1.9'"}, "no: qsub is here, and it is Grid Engine's (on=Sge())"),
        ({"qstat": "echo refused >&2; exit 1"}, "no: qsub is here, but no server answers (refused)"),
    ],
)
def test_whether_it_can_be_used(planted: Path, programs: dict[str, str], found: str) -> None:
    programs = {"qsub": "", "qdel": "", **programs}
    if "pbs_version" in programs["qstat"]:
        programs["qstat"] += "; exit 0"
    plant(planted, **programs)
    assert availability()["pbs"] == found
