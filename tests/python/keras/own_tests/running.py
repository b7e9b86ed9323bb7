"""Run Keras's own tests in one process, or on the workers of jobs, and read what came of each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from support.launching import TFMUSTER, environment

PROGRAM = Path(__file__).parent / "run.py"
#: Packages of Keras whose tests are run.
PACKAGES = ("trainers", "callbacks", "losses", "metrics", "optimizers", "saving")
#: Seconds after which a test on workers that write nothing is ended.
LONGEST_TEST = 90


@dataclass(frozen=True)
class Outcome:
    """What came of a test: ``passed``, ``skipped``, ``failed``, or ``ended`` with the process; and why."""

    result: str
    text: str = ""
    seconds: float = 0.0


def files(*packages: str) -> list[str]:
    """Return the files of tests of Keras's packages, relative to the folder that has the package keras."""
    spec = find_spec("keras")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parents[1]
    found = [path for name in packages for path in sorted((root / "keras" / "src" / name).glob("*_test.py"))]
    return [str(path.relative_to(root)) for path in found]


def in_one_process(way: str, folder: Path, tests: Sequence[str], limit: float) -> dict[str, Outcome]:
    """Run tests with stock Keras (``way="stock"``) or with tfmuster's patches (``"repaired"``)."""
    folder.mkdir(parents=True)
    (folder / "tests").write_text("\n".join(tests) + "\n", encoding="utf-8")
    command = [sys.executable, str(PROGRAM), way, str(folder)]
    env = environment(TF_CPP_MIN_LOG_LEVEL="3", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=limit, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return _outcomes(folder / "0.jsonl")


def collected(folder: Path, file: str) -> list[str]:
    """Return the tests of a file, without running them."""
    found = in_one_process("collect", folder, [file], limit=120)
    return [test for test in found if "::" in test]


def on_workers(folder: Path, tests: Sequence[str], workers: int, limit: float) -> dict[str, Outcome]:
    """Run single tests in lock-step on the workers of a job; after one that parts them, in the next job."""
    found: dict[str, Outcome] = {}
    end = time.monotonic() + limit
    job = 0
    while left := [test for test in tests if test not in found]:
        assert time.monotonic() < end, f"{len(left)} tests are left after {job} jobs: {left[:3]}"
        new = _one_job(folder / f"job-{job}", left, workers, end)
        assert new, (folder / f"job-{job}" / "launch.txt").read_text()[-6000:]
        found |= new
        job += 1
    return found


def _one_job(folder: Path, tests: Sequence[str], workers: int, end: float) -> dict[str, Outcome]:
    folder.mkdir(parents=True)
    (folder / "tests").write_text("\n".join(tests) + "\n", encoding="utf-8")
    command = [*TFMUSTER, "launch", "-n", str(workers), "--distribute", "--stall-timeout", "15", "--run-dir"]
    command += ["run", "--seed", "7", str(PROGRAM), "workers", str(folder)]
    env = environment(TF_CPP_MIN_LOG_LEVEL="3", PYTHONDONTWRITEBYTECODE="1")
    files = [folder / f"{worker}.jsonl" for worker in range(workers)]
    with (folder / "launch.txt").open("w") as output:
        launcher = subprocess.Popen(
            command, env=env, cwd=folder, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        try:
            started = time.time()
            while launcher.poll() is None:
                written = max([started, *(file.stat().st_mtime for file in files if file.exists())])
                if time.time() - written > LONGEST_TEST or time.monotonic() > end:
                    launcher.terminate()
                    break
                time.sleep(0.1)
            launcher.wait(timeout=60)
        finally:
            launcher.kill()
            launcher.wait()
    of_workers = [_outcomes(file) for file in files if file.exists()]
    error = folder / "run" / "error.json"
    cause = json.loads(error.read_text())["error"] if error.exists() else "ended after a minute"
    everywhere = {test: [each.get(test) for each in of_workers] for each in of_workers for test in each}
    found = {}
    for test, outcomes in everywhere.items():
        ended = [outcome for outcome in outcomes if outcome is not None and outcome.result != "begun"]
        failed = [outcome for outcome in ended if outcome.result == "failed"]
        if len(ended) == workers:
            found[test] = (failed or ended)[0]
        elif failed:
            found[test] = failed[0]
        else:
            found[test] = Outcome("ended", str(cause))
    return found


def _outcomes(file: Path) -> dict[str, Outcome]:
    lines = (json.loads(line) for line in file.read_text().splitlines() if line.endswith("}"))
    return {
        line["test"]: Outcome(line["outcome"], line.get("text", ""), line.get("seconds", 0.0))
        for line in lines
    }
