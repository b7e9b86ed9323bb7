"""Let the programs of tests be forked from processes that have TensorFlow imported; see forking/.

A test or a file with the marker `fresh` has its programs started by themselves.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support import jax

_FOLDER = Path(__file__).parent / "forking"
_VARIABLE = "FORK_SERVERS"
#: In the environment of a program that is to be started by itself where others are forked.
FRESH = {_VARIABLE: ""}
#: What the servers import: what programs do, and some modules that TensorFlow imports later.
_TENSORFLOW = (
    "keras",
    "tensorflow",
    "tensorflow.python.distribute.collective_all_reduce_strategy",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
)


class ForkServers:
    """The servers, for all processes of pytest, in whose environment they are from then on.

    A server imports its modules for the first program that asks for it.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        environ = dict(os.environ)
        before = environ.pop("PYTHONPATH", "")
        self._processes = [self._start("tensorflow", sys.executable, environ, _TENSORFLOW)]
        if jax.PYTHON.exists():
            self._processes.append(
                self._start("jax", str(jax.PYTHON), {**environ, **jax.ENVIRONMENT}, ("jax", "keras"))
            )
        if shutil.which("R"):
            self._processes.append(self._start_r(environ))
        os.environ[_VARIABLE] = self._folder.name
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_FOLDER), before)))

    def _start(
        self, name: str, python: str, environ: dict[str, str], modules: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        command = (python, _FOLDER / "server.py", "{}", self._place(name), *modules)
        return self._listen(name, command, environ)

    def _start_r(self, environ: dict[str, str]) -> subprocess.Popen[bytes]:
        home = subprocess.run(["R", "RHOME"], capture_output=True, text=True, check=True).stdout.strip()
        instead = (sys.executable, "-S", "-E", _FOLDER / "representative.py")
        # Rscript runs bin/R of this folder.
        own = Path(self._folder.name, "bin", "R")
        own.parent.mkdir()
        own.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, (*instead, f"{home}/bin/R")))} "$@"\n')
        own.chmod(0o755)
        os.environ["RHOME"] = self._folder.name
        environ = {"RETICULATE_PYTHON": sys.executable, **environ, "TMPDIR": self._folder.name}
        words = ("--no-echo", "--no-restore", f"--file={_FOLDER / 'server.R'}", "--args", "{}")
        command = (*instead, "--serve", self._place("R"), f"{home}/bin/R", *words)
        return self._listen("R", command, environ)

    def _place(self, name: str) -> Path:
        return Path(self._folder.name, f"{name}.json")

    def _listen(
        self, name: str, command: tuple[str | Path, ...], environ: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a server with a socket, whose number takes the place of {} in its command."""
        path = Path(self._folder.name, name)
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            path.with_suffix(".log").open("wb") as log,
        ):
            listener.bind(str(path))
            listener.listen(64)
            process = subprocess.Popen(
                [str(listener.fileno()) if word == "{}" else word for word in command],
                # The hash seed of launched workers.
                env={**environ, "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
            )
        end = time.monotonic() + 60
        while not self._place(name).exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return process

    def close(self) -> None:
        """End them, and the programs that still run."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                # It is importing.
                process.kill()
                process.wait()
        self._folder.cleanup()
