"""Run ``tfmuster launch`` as a user does, and find what it has left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.clock import PATIENCE
from tfmuster.tracking.run import Run

TFMUSTER = [sys.executable, "-m", "tfmuster"]
#: Of a test that fills the disk, which is full then for what `make coverage` writes, too.
DISK_IS_FULL = pytest.mark.skipif(
    "COVERAGE_PROCESS_CONFIG" in os.environ, reason="coverage writes to the disk, too"
)


def environment(**more: str) -> dict[str, str]:
    """The environment of a user who is not inside a job.

    Without the size of a terminal: readline, which pytest imports, sets LINES and COLUMNS to 24 and 80 where
    there is no terminal.
    """
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TFMUSTER_", "TF_CONFIG", "TF_CPP_", "LINES", "COLUMNS"))
    }
    return {**inherited, "PYTHONUNBUFFERED": "1", **more}


def tfmuster(
    *arguments: object, cwd: Path, limit: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    return python("-m", "tfmuster", *arguments, cwd=cwd, limit=limit, **env)


def python(*arguments: object, cwd: Path, limit: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def start_tfmuster(*arguments: object, cwd: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TFMUSTER, *map(str, arguments)],
        cwd=cwd,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def beside_python(name: str) -> str | None:
    """A program that pip has installed for this Python, or that is on PATH; None if there is none."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def plant(folder: Path, **programs: str) -> None:
    """Put programs into a folder, each a line of shell."""
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def wait_until(happened: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + PATIENCE * seconds
    while not happened():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def processes_in(folder: Path) -> list[str]:
    """Every living process but this one that works in a folder, in words."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            inside = Path(process.cwd()).is_relative_to(folder) and process.pid != os.getpid()
            if inside and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {' '.join(process.cmdline())}")
    return found


def nothing_left(folder: Path, seconds: float = 0.5) -> None:
    """Nothing runs in a folder any more; a process that is just ending may take `seconds`."""
    end = time.monotonic() + seconds
    while left := processes_in(folder):
        assert time.monotonic() < end, left
        time.sleep(0.02)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def states(folder: Path) -> dict[str, tuple[str, int | None]]:
    tasks = Run(only_run(folder)).status()["tasks"]
    return {name: (task["state"], task["exit_code"]) for name, task in tasks.items()}
