"""Let the Python programs of tests be forked from a process that has TensorFlow imported; see forking/.

A test or a file with the marker `fresh` has its programs started by themselves.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
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
        os.environ[_VARIABLE] = self._folder.name
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_FOLDER), before)))

    def _start(
        self, name: str, python: str, environ: dict[str, str], modules: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        path = Path(self._folder.name, name)
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            path.with_suffix(".log").open("wb") as log,
        ):
            listener.bind(str(path))
            listener.listen(64)
            process = subprocess.Popen(
                [python, _FOLDER / "server.py", str(listener.fileno()), path.with_suffix(".json"), *modules],
                # The hash seed of launched workers.
                env={**environ, "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[listener.fileno()],
            )
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def close(self) -> None:
        """End them, and the programs that still run."""
        for process in self._processes:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.wait(timeout=10)
            process.stdout.close()
        self._folder.cleanup()
