"""Let the Python programs of tests be forked from a process that has TensorFlow imported; see forking/.

A test or a file with the marker `fresh` has its programs started by themselves.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_FOLDER = Path(__file__).parent / "forking"
_VARIABLE = "FORK_SERVER"
#: In the environment of a program that is to be started by itself where others are forked.
FRESH = {_VARIABLE: ""}


class ForkServer:
    """The server, one for all processes of pytest, in whose environment it is from then on.

    It imports TensorFlow for the first program.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        path = Path(self._folder.name, "socket")
        environ = dict(os.environ)
        os.environ[_VARIABLE] = str(path)
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(_FOLDER), environ.pop("PYTHONPATH", "")))
        )
        Path(f"{path}.json").write_text(json.dumps(_place()))
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            Path(self._folder.name, "log").open("wb") as log,
        ):
            listener.bind(str(path))
            listener.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, _FOLDER / "server.py", str(listener.fileno())],
                # The hash seed of launched workers.
                env={**environ, "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[listener.fileno()],
            )

    def close(self) -> None:
        """End it, and the programs that still run."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._folder.cleanup()


def _place() -> dict[str, object]:
    """What programs must have in common with the server, as `sitecustomize` says."""
    spec = importlib.util.spec_from_file_location("forking", _FOLDER / "sitecustomize.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # It would hand this process over.
    sys.forked_for_test = True  # type: ignore[attr-defined]
    spec.loader.exec_module(module)
    place: dict[str, object] = module.place()
    return place
