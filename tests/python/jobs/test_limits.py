"""What a job says about limits of the system: one named error, and nothing left."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from support.launching import TFMUSTER, environment, nothing_left, tfmuster, write
from support.paths import ROOT

pytestmark = [pytest.mark.fresh, pytest.mark.slow, pytest.mark.timeout(60)]

PACKAGES = ROOT / "python"


def launched(folder: Path, limit: str, workers: int) -> subprocess.CompletedProcess[str]:
    """What a launch says in a shell with a limit of open files, such as ``-n 64``."""
    write(folder, "train.py", "print('hello')")
    command = (
        f"ulimit {limit}; exec {' '.join(TFMUSTER)} launch --all-output -n {workers} --oversubscribe train.py"
    )
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment(), capture_output=True, text=True, timeout=50
    )


@pytest.mark.parametrize(("limit", "workers", "needed"), [("-n 64", 30, 122), ("-n 20", 8, 56)])
def test_too_few_open_files(tmp_path: Path, limit: str, workers: int, needed: int) -> None:
    done = launched(tmp_path, limit, workers)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"Error: A job of {workers} workers on this machine needs about {needed} open files.",
        f"  found: this system allows {limit[3:]} (`ulimit -n`)",
        "  to do: Raise the limit, or start fewer workers here.",
    ]
    nothing_left(tmp_path)
    assert not (tmp_path / "runs").exists()


def _readable_python() -> str | None:
    """A Python of this version that every user can run, with what tfmuster imports."""
    python = shutil.which("python3", path="/usr/bin")
    if python is None or os.geteuid() != 0 or not shutil.which("setpriv"):
        return None
    for path in (PACKAGES, Path(psutil.__file__).parent):
        if any(not folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents)):
            return None
    told = subprocess.run([python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True)
    return python if told.stdout.decode().strip() == str(sys.version_info[:2]) else None


@pytest.mark.skipif(not _readable_python(), reason="needs root, and a Python that other users can run")
@pytest.mark.parametrize("limit", [2, 6])
def test_too_few_processes(limit: int) -> None:
    """The system limits them for users other than root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        write(folder, "train.py", "print('hello')")
        os.chown(folder, 64123, 64123)
        paths = os.pathsep.join([str(PACKAGES), str(Path(psutil.__file__).parents[1])])
        user = ("setpriv", "--reuid=64123", "--regid=64123", "--clear-groups")
        command = f"ulimit -u {limit}; exec {_readable_python()} -m tfmuster launch -n 8 train.py"
        done = subprocess.run(
            [*user, "bash", "-c", command],
            cwd=folder,
            env=environment(HOME=name, PYTHONPATH=paths, PATH="/usr/bin:/bin"),
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 2, done.stderr
        _, started, *error = done.stderr.splitlines()
        assert re.fullmatch(r"Error: Worker \d can't be started\.", started)
        assert error == [
            "  found: Resource temporarily unavailable",
            "  to do: Raise the limit of processes (`ulimit -u`), or start fewer workers here.",
        ]
        nothing_left(folder)


def test_a_soft_limit_is_raised(tmp_path: Path) -> None:
    done = launched(tmp_path, "-Sn 32", 12)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hello") == 12


def test_a_million_workers(tmp_path: Path) -> None:
    done = launched(tmp_path, "-n 20000", 1_000_000)
    assert done.returncode == 2 and "needs about 3000032 open files" in done.stderr


def test_a_name_longer_than_a_file_name(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "print('hello')")
    for place in (("--name", "x" * 300), ("--run-dir", "x" * 300)):
        done = tfmuster("launch", *place, "train.py", cwd=tmp_path)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert "  found: File name too long\n  to do: Choose a shorter name." in done.stderr
        assert "x" * 120 not in done.stderr
    done = tfmuster("runs", "show", "x" * 300, cwd=tmp_path)
    assert done.returncode == 2 and "no run in runs matches 'xxx" in done.stderr
    assert "x" * 120 not in done.stderr


def test_a_run_with_odd_metrics_is_listed(tmp_path: Path) -> None:
    odd = tmp_path / "runs" / "odd"
    odd.mkdir(parents=True)
    (odd / "run.json").write_text("{}")
    (odd / "metrics.jsonl").write_bytes(
        b'junk{\n[1, 2]\n{"epoch": "x", "loss": [1]}\n\xff\n{"epoch": null}\n'
    )
    for verb in ("list", "show", "report"):
        done = tfmuster("runs", verb, *(() if verb == "list" else ("odd",)), cwd=tmp_path)
        assert done.returncode == 0 and "odd" in done.stdout, done.stderr
    assert tfmuster("runs", "list", cwd=tmp_path, HOME="").returncode == 0


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="needs namespaces")
@pytest.mark.parametrize(
    ("space", "found"),
    [
        (["unshare", "--net"], "must reach each other at 127.0.0.1.\n  found: "),
        (
            ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"],
            "The processes of this machine must be visible.\n  found: /proc is not mounted",
        ),
    ],
)
def test_a_machine_that_shows_or_connects_nothing(tmp_path: Path, space: list[str], found: str) -> None:
    write(tmp_path, "train.py", "")
    done = subprocess.run(
        [*space, *TFMUSTER, "launch", "-n", "2", "train.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2 and found in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_directory_that_is_moved_while_the_job_runs(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import os, time", "os.rename('runs', 'moved')", "time.sleep(30)")
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "The run directory must stay where it is while the job runs." in done.stderr
    assert "has been moved or removed" in done.stderr
