"""What happens around the rendezvous in programs: which tasks continue, and how workers inside R end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import free_addresses, run_job, succeeded
from support.paths import PROGRAMS
from support.r import NEEDS_R

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "RETICULATE_PYTHON": sys.executable}


def test_everyone_goes_on_although_the_chief_keeps_the_interpreter_lock() -> None:
    moments = [float(process.stdout) for process in succeeded(run_job("greedy_chief.py", 8, limit=60))]
    assert max(moments) - min(moments) < 3


@NEEDS_R
@pytest.mark.parametrize("how", ["plain", "package"])
def test_a_worker_may_end_long_before_the_others(tmp_path: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tfmuster", "launch", "-n", "2", PROGRAMS / "uneven.R", how],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "worker 0 | end of worker 0" in done.stdout
    assert "disappeared" not in done.stdout


@NEEDS_R
@pytest.mark.parametrize(
    ("fails", "code", "said"),
    [
        ("stop", 1, "failed: Error: planted in R"),
        # R calls no handler for it, and tfmuster's own option must not let it go on.
        ("overflow", 1, "failed: exit code 1"),
        ("quit", 5, "failed: exit code 5"),
    ],
)
def test_an_r_error_reaches_a_worker_started_by_hand(fails: str, code: int, said: str) -> None:
    addresses = free_addresses(2)
    workers = []
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        workers.append(
            subprocess.Popen(
                ["Rscript", PROGRAMS / "uneven.R", "package"],
                env={**ENVIRONMENT, "TF_CONFIG": json.dumps(config), "TEST_FAIL": fails},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [worker.communicate(timeout=100) for worker in workers]
    assert workers[1].returncode == code
    assert "end of worker" not in outputs[1][0]
    assert said in outputs[0][1], outputs
