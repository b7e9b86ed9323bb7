"""Exchange a short text between all ranks of an MPI job, by the means of the MPI that has started them.

- PMI, if the process manager has given each rank a connection (``PMI_FD``): MPICH, Intel MPI, MVAPICH. Its
  lines follow the Simple PMI wire protocol (MPICH, ``src/pmi/simple``).
- mpi4py, if it is installed and belongs to the MPI that has started the ranks.
- Open MPI's own library.

The last two run in a child, so that MPI is not initialized in this process or in the user's program. Open MPI
ends all ranks when one fails. A process manager that uses PMI also does so when a rank ends without
`finalize`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ...environment import start_timeout
from ...errors import LaunchError
from ...system.interpreter import run_module, with_tfmuster_on_path

#: Length of an exchanged text, in bytes: the shortest limit that PMI sets for a value.
LONGEST = 1024
_LIBRARIES = ("libmpi.so.40", "libmpi.so", "libmpi.40.dylib")


class Rank(NamedTuple):
    """One process of an MPI job."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    open_mpi: bool


def exchange(rank: Rank, text: str, environ: Mapping[str, str]) -> list[str]:
    """Send a text to all ranks, and return the texts of all in rank order. Raises LaunchError."""
    encoded = base64.urlsafe_b64encode(text.encode()).decode()
    assert len(encoded) <= LONGEST
    seconds = start_timeout()
    try:
        if not rank.open_mpi and environ.get("PMI_FD", "").isdigit():
            texts = _by_pmi(rank, encoded, int(environ["PMI_FD"]), seconds)
        else:
            texts = _by_child(rank, encoded, environ, seconds)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise _failed(f"not all {rank.size} ranks have taken part within {seconds:.0f} s") from None
    except OSError as error:
        raise _failed(str(error)) from error
    if len(texts) != rank.size:
        raise _failed(f"{len(texts)} of {rank.size} ranks")
    return [base64.urlsafe_b64decode(text).decode() for text in texts]


class _Pmi:
    """A connection to the process manager.

    Once it is open, the process manager treats the end of this process as a failure and ends all ranks,
    unless ``finalize`` has been sent before.
    """

    def __init__(self, number: int, seconds: float) -> None:
        self._connection = socket.socket(fileno=os.dup(number))
        self._connection.settimeout(seconds)
        self._answers = self._connection.makefile("rb")
        self.ask("init", pmi_version=1, pmi_subversion=1)

    def ask(self, command: str, **arguments: object) -> dict[str, str]:
        """Send a command, and return the answer. Raises OSError if the process manager refuses it."""
        words = [f"cmd={command}", *(f"{key}={value}" for key, value in arguments.items())]
        self._connection.sendall((" ".join(words) + "\n").encode())
        line = self._answers.readline().decode()
        answer = dict(word.partition("=")[::2] for word in line.split())
        if answer.get("rc", "0") != "0" or "cmd" not in answer:
            raise OSError(f"PMI answers {line.strip()[:200]!r} to {command}")
        return answer


#: The open connection, if there is one.
_pmi: list[_Pmi] = []


def finalize() -> None:
    """Tell the process manager that this process ends successfully, if it uses PMI."""
    with contextlib.suppress(OSError):
        while _pmi:
            _pmi.pop().ask("finalize")


def _by_pmi(rank: Rank, text: str, number: int, seconds: float) -> list[str]:
    pmi = _Pmi(number, seconds)
    _pmi.append(pmi)
    space = pmi.ask("get_my_kvsname")["kvsname"]
    pmi.ask("put", kvsname=space, key=f"tfmuster-{rank.rank}", value=text)
    pmi.ask("barrier_in")
    return [pmi.ask("get", kvsname=space, key=f"tfmuster-{other}")["value"] for other in range(rank.size)]


def _by_child(rank: Rank, text: str, environ: Mapping[str, str], seconds: float) -> list[str]:
    done = subprocess.run(
        [*run_module(__name__), str(rank.size)],
        env=with_tfmuster_on_path(environ),
        # The text holds the job's secret, and every user of the machine can read a command line.
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
    # MPI's libraries may print lines before the answer.
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise _failed(output[-1] if output else f"exit code {done.returncode}")
    texts: list[str] = json.loads(lines[-1])
    return texts


def _failed(why: str) -> LaunchError:
    return LaunchError(
        "MPI ranks must be able to send each other their addresses.",
        found=why,
        fix="Install mpi4py for the Python of every rank, built with the MPI whose mpirun starts them.",
        reason="mpi",
    )


def _by_mpi4py(text: bytes) -> list[bytes] | None:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return None
    texts: list[bytes] = MPI.COMM_WORLD.allgather(text)
    return texts


def _by_library(size: int, text: bytes) -> list[bytes]:
    """Exchange with Open MPI's library, whose predefined objects are exported variables."""
    library = _library()
    byte, world = (
        ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, f"ompi_mpi_{name}")))
        for name in ("byte", "comm_world")
    )
    library.MPI_Init(None, None)
    texts = ctypes.create_string_buffer(LONGEST * size)
    library.MPI_Allgather(text.ljust(LONGEST), LONGEST, byte, texts, LONGEST, byte, world)
    library.MPI_Finalize()
    return [texts.raw[at : at + LONGEST].rstrip() for at in range(0, len(texts.raw), LONGEST)]


def _library() -> ctypes.CDLL:
    for path in _library_paths():
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise OSError("there is neither mpi4py nor Open MPI's library")


def _library_paths() -> Iterator[str]:
    """Yield the name of the library, then its paths beside the programs of Open MPI."""
    yield from _LIBRARIES
    program = shutil.which("orted") or shutil.which("prted") or shutil.which("mpirun")
    roots = [os.environ.get("OPAL_PREFIX"), str(Path(program).parent.parent) if program else None]
    places = itertools.product(filter(None, roots), ("lib", "lib64"), _LIBRARIES)
    yield from (f"{root}/{folder}/{name}" for root, folder, name in places)


def main() -> None:
    """Print the texts of as many ranks as the argument says, as JSON; this rank's is standard input."""
    size, text = int(sys.argv[1]), sys.stdin.buffer.read()
    texts = _by_mpi4py(text)
    if texts is None or len(texts) != size:
        texts = _by_library(size, text)
    print(json.dumps([text.decode() for text in texts]))


if __name__ == "__main__":
    main()
