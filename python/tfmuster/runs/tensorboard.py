"""TensorBoard of a run: its logs, written by the chief where the program asks for them, and the server."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from ..environment import RUN_DIR_VARIABLE
from ..errors import DependencyError, TfmusterError
from ..net.ports import free_ports
from ..system.interpreter import python_executable
from ..system.tensorflow_import import import_tensorflow
from .run import Run

#: The folder of its logs in the run directory.
LOGS = "tensorboard"
_START_SECONDS = 60.0
# Kept, so that a server that has ended does not stay a zombie.
_servers: list[subprocess.Popen[bytes]] = []


def tensorboard_callback(folder: str | os.PathLike[str] | None = None) -> Any:
    """A Keras callback that writes TensorBoard's logs, on the chief; on other workers it does nothing.

    Parameters
    ----------
    folder : path, optional
        Where to; ``tensorboard`` in the run directory of the job unless given.

    Returns
    -------
    keras.callbacks.Callback

    Raises
    ------
    DependencyError
        TensorBoard is not installed.
    TfmusterError
        No folder is given, and this is no worker of ``tfmuster launch``.
    """
    _need_tensorboard()
    if folder is None:
        if RUN_DIR_VARIABLE not in os.environ:
            raise TfmusterError(
                "TensorBoard's logs need a folder.",
                found="none was given, and this process is no worker of `tfmuster launch`",
                fix="Give `folder`, or launch the program.",
            )
        folder = Path(os.environ[RUN_DIR_VARIABLE], LOGS)
    import_tensorflow()
    import keras

    from ..cluster.tf_config import is_chief

    if not is_chief():
        return keras.callbacks.Callback()
    return keras.callbacks.TensorBoard(log_dir=os.fspath(folder))


def start_tensorboard(run: Run, *, port: int = 0) -> dict[str, Any]:
    """Start TensorBoard on this machine's loopback address, with the logs of a run.

    Parameters
    ----------
    run : Run
        Whose program used :func:`tensorboard_callback`.
    port : int
        Where to listen; 0: a free port.

    Returns
    -------
    dict
        ``url`` and ``pid``. It goes on until its process ends.

    Raises
    ------
    TfmusterError
        The run has no such logs, or TensorBoard does not start.
    """
    _need_tensorboard()
    folder = run.path / LOGS
    if not folder.is_dir():
        raise TfmusterError(
            f"The run {run.name} has no logs of TensorBoard.",
            found=f"no {folder}",
            fix="Give tensorboard_callback() to fit() or train_mnist().",
        )
    port = port or free_ports(1)[0]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    command = [python_executable(), "-m", "tensorboard.main", "--logdir", str(folder), *place]
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _servers.append(server)
    url = f"http://127.0.0.1:{port}/"
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return {"url": url, "pid": server.pid}
        time.sleep(0.2)
    code = server.poll()
    server.kill()
    raise TfmusterError(
        "TensorBoard did not start.",
        found=f"no answer in {_START_SECONDS:.0f} s" if code is None else f"exit code {code}",
        fix=f"Try it by hand: {' '.join(command)}",
    )


def _need_tensorboard() -> None:
    if importlib.util.find_spec("tensorboard") is None:
        raise DependencyError(
            "TensorBoard is needed.",
            found=f"it is not installed for {python_executable()}",
            fix="pip install tensorboard",
            package="tensorboard",
        )
