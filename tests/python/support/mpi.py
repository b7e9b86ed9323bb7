"""The MPIs of this machine, by the names that Debian gives their programs, and how root may call them."""

from __future__ import annotations

import base64
import binascii
import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
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


@contextlib.contextmanager
def command_lines() -> Iterator[set[str]]:
    """Collect the words of all command lines of the machine, and what base64 words stand for."""
    found: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    found.update(process.cmdline())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        for word in list(found):
            with contextlib.suppress(binascii.Error, ValueError):
                found.add(base64.urlsafe_b64decode(word).decode())
