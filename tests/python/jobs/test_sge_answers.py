"""Grid Engine without one: its script, and its answers as they were recorded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.launching import plant, write
from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.base import engine_for
from tfmuster.launcher.engines.batch_commands import JobState, Phase
from tfmuster.launcher.engines.sge import Sge
from tfmuster.launcher.job import Job
from tfmuster.options import places

#: What `qstat -j` of Son of Grid Engine 8.1.9 said of jobs, without the lines that are alike.
_JOB = """==============================================================
job_number:                 16
env_list:                   TERM=NONE,A=b
error reason: not at all
usage: none
script_file:                j2.sh
parallel environment:  spread range: 300
binding:                    NONE
job_type:                   NONE
"""
_SGE_ANSWERS = {
    _JOB + 'scheduling info:            cannot run in PE "spread" because it only offers 14 slots': JobState(
        Phase.WAITING, 'cannot run in PE "spread" because it only offers 14 slots'
    ),
    _JOB + "scheduling info:            (Collecting of scheduler job information is turned off)": JobState(
        Phase.WAITING
    ),
    _JOB + "scheduling info:            Job is in hold state": JobState(
        Phase.WAITING, "Job is in hold state"
    ),
    _JOB: JobState(Phase.WAITING),
    _JOB
    + "error reason          1:      11/22/2026 06:18:59 [0:878]: error: can't chdir to /nope: No such file\n"
    "scheduling info:            Job is in error state": JobState(
        Phase.STUCK, "11/22/2026 06:18:59 [0:878]: error: can't chdir to /nope: No such file"
    ),
    _JOB + "usage         1:            cpu=00:00:00, mem=0.00000 GB s\nbinding       1:   NONE": JobState(
        Phase.RUNNING
    ),
}


@pytest.mark.parametrize(("said", "state"), _SGE_ANSWERS.items())
def test_what_grid_engine_says_of_a_job(planted: Path, said: str, state: JobState) -> None:
    write(planted.parent, "said", said)
    plant(planted, qstat=f"cat {planted.parent}/said")
    assert Sge().state("16") == state


def test_a_job_is_over_when_grid_engine_knows_it_no_longer(planted: Path) -> None:
    plant(planted, qstat="echo 'Following jobs do not exist: ' >&2; echo 16 >&2; exit 1")
    assert Sge().state("16").phase is Phase.OVER
    plant(planted, qstat='echo "error: commlib error: got select error (Connection refused)" >&2; exit 1')
    assert Sge().state("16").phase is Phase.UNKNOWN


def test_how_a_job_of_grid_engine_has_ended(planted: Path) -> None:
    entry = "====\nhostname     {}\njobnumber    1\nfailed       {}\nexit_status  {}\nru_wallclock 3s"
    own = entry.format("node1.example.org", "100 : assumedly after job", "137      (Killed)")
    task = entry.format("node2.example.org", "0    ", "3")
    plant(planted, qacct=f"cat {planted.parent}/said")
    for entries in ([own, task], [task, own]):
        write(planted.parent, "said", *entries)
        assert Sge().ending("1", "node1") == "failed 100 : assumedly after job, exit status 137 (Killed)"
    # One that has not started has one entry.
    write(planted.parent, "said", own)
    assert Sge().ending("1", "").startswith("failed 100")


def test_an_accounting_that_knows_nothing_yet_is_named(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfmuster.launcher.engines.sge._ACCOUNTING_SECONDS", 0.5)
    plant(planted, qacct="echo 'error: job id 1 not found' >&2; exit 1")
    assert Sge().ending("1", "node1").startswith("`qacct -j 1` says why")


def test_the_script_of_grid_engine_passes_on_that_it_is_to_end(planted: Path, tmp_path: Path) -> None:
    launcher = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(7)); print('up', flush=True)"
    )
    body = Sge().body([sys.executable, "-c", f"{launcher}; time.sleep(60)"])
    script = write(tmp_path, "job.sh", "#!/bin/sh", *body)
    for number in ("USR2", "USR1"):
        process = subprocess.Popen(
            ["sh", str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        # As Grid Engine does, to all processes of the job.
        subprocess.run(["kill", f"-{number}", "--", f"-{process.pid}"], check=True)
        assert process.wait(timeout=20) == 7


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("-pe mpi",), "#$ -pe mpi 3"),
        (("-q gpu.q -pe mpi 3 -l gpu=1",), "#$ -pe mpi 3\n#$ -q gpu.q -l gpu=1"),
        (("-l hostname=x-pe",), "#$ -pe only 3\n#$ -l hostname=x-pe"),
    ],
)
def test_options_of_qsub(planted: Path, options: tuple[str, ...], line: str) -> None:
    plant(planted, qconf="echo only")
    engine = engine_for(places.Sge(*options))
    script = engine.script(Job(["train.py"], workers=3))  # type: ignore[attr-defined]
    assert line in re.sub(" +", " ", script)


@pytest.mark.parametrize(
    "options", [("-pe",), ("-pe mpi 4",), ("-pe mpi 2-4",), ("-pe a", "-pe b"), ("-pe -q x",)]
)
def test_an_option_pe_that_says_something_else_is_refused(options: tuple[str, ...]) -> None:
    engine = engine_for(places.Sge(*options))
    with pytest.raises(LaunchError, match="names the parallel environment"):
        engine.script(Job(["train.py"], workers=3))  # type: ignore[attr-defined]
