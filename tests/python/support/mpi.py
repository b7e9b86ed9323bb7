"""The MPIs of this machine, by the names that Debian gives their programs, and how root may call them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.launching import environment, nothing_left

_OPTIONS = {
    "mpirun.openmpi": ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
    "mpirun.mpich": (),
}
FLAVOURS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"needs {name} ({package})"))
    for name, package in {"mpirun.openmpi": "openmpi-bin", "mpirun.mpich": "mpich"}.items()
]
needs_open_mpi = pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="needs openmpi-bin")
WORKER = (sys.executable, "-m", "tfmuster", "worker")


def mpirun(
    flavour: str, *arguments: object, cwd: Path, limit: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``mpirun`` to its end; nothing of it is left afterwards."""
    process = subprocess.Popen(
        [flavour, *_OPTIONS[flavour], *map(str, arguments)],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = time.monotonic()
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            out, err = process.communicate(timeout=10)
        process.kill()
        raise AssertionError(f"{out}\n{err}\nnot over after {time.monotonic() - begun:.0f} s") from None
    nothing_left(cwd, seconds=5)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
