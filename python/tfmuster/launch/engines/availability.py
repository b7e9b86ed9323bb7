"""Which engines can be used from here, and why not the others: what they need is looked for, not started."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...errors import LaunchError

#: How long a program may take to tell its version, or whether its server answers, seconds.
ANSWER_SECONDS = 5.0
#: What pyspark 4 needs.
_OLDEST_JAVA = 17


class _NotHereError(Exception):
    """Something that an engine needs is missing; the text says what, and what to do."""


def engines(timeout: float = ANSWER_SECONDS) -> dict[str, str]:
    """For each engine ``yes``, with what was found, or ``no`` and why.

    Parameters
    ----------
    timeout : float
        How long each may take to answer, seconds. They are asked at the same time.
    """
    asked: dict[str, Callable[[float], str]] = {
        "local": lambda _: "",
        "ssh": _ssh,
        "spark": _spark,
        "slurm": _slurm,
        "mpi": _mpi,
        "kubernetes": _kubernetes,
    }

    def answer(ask: Callable[[float], str]) -> str:
        try:
            found = ask(timeout)
        except _NotHereError as problem:
            return f"no: {problem}"
        return f"yes: {found}" if found else "yes"

    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(answer, asked.values()), strict=True))


def _ssh(timeout: float) -> str:
    return _first_line(_ask([_program("ssh", "apt-get install openssh-client"), "-V"], timeout))


def _spark(timeout: float) -> str:
    if importlib.util.find_spec("pyspark") is None:
        raise _NotHereError("pyspark is not installed (pip install 'tfmuster[spark]')")
    pyspark = f"pyspark {importlib.metadata.version('pyspark')}"
    own = Path(os.environ.get("JAVA_HOME", ""), "bin", "java")
    java = str(own) if own.is_absolute() else _program("java", "apt-get install openjdk-17-jre-headless")
    said = _ask([java, "-version"], timeout)
    version = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', said)
    # Before 9 it was called 1.8.
    number = int(version[2] or 0) if version and version[1] == "1" else int(version[1]) if version else 0
    if number < _OLDEST_JAVA:
        raise _NotHereError(
            f"{pyspark} needs Java {_OLDEST_JAVA} or later, and {java} is {_first_line(said)}"
        )
    return f"{pyspark}, Java {number}"


def _slurm(timeout: float) -> str:
    for name in ("srun", "sbatch"):
        _program(name, "apt-get install slurm-client, on a machine of a Slurm cluster")
    said = _ask(["scontrol", "ping"], timeout, may_fail=True)
    up = [line for line in said.splitlines() if " is UP" in line]
    if not up:
        raise _NotHereError(f"srun is here, but no controller answers ({_first_line(said)})")
    return up[0].strip()


def _mpi(timeout: float) -> str:
    from .mpi import mpirun_program

    try:
        program = mpirun_program()
    except LaunchError as error:
        raise _NotHereError(f"{error.found} (apt-get install openmpi-bin)") from error
    said = _ask([program, "--version"], timeout)
    hydra = re.search(r"Version:\s*(\S+)", said) if "HYDRA" in said else None
    return f"MPICH {hydra[1]}" if hydra else _first_line(said)


def _kubernetes(_: float) -> str:
    return _program("kubectl", "manifests can be printed here, and applied where it is")


def _program(name: str, fix: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise _NotHereError(f"{name} is not on PATH ({fix})")
    return path


def _ask(command: list[str], timeout: float, *, may_fail: bool = False) -> str:
    """What a program says, on either output; after too long it is ended, with all that it has started."""
    name = " ".join(command)
    # A file, because a process that is left over would keep a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            raise _NotHereError(f"{name} can't be started: {error.strerror}") from error
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise _NotHereError(f"{name} does not answer within {timeout:g} s") from None
        output.seek(0)
        said = output.read(10_000).decode(errors="replace")
    if code and not may_fail:
        raise _NotHereError(f"{name} fails ({_first_line(said)})")
    return said


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing")
