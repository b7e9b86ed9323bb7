"""Write a run's TensorBoard logs on the chief, and start TensorBoard with them."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import subprocess
import time
import urllib.request
from typing import Any

from ...errors import DependencyError, TfmusterError
from ...net.ports import free_ports
from ...system.interpreter import python_executable, run_module
from ...system.tensorflow_import import import_tensorflow
from ...words import Code, Words
from ..record.layout import TENSORBOARD, own_run_dir
from ..run import Run

_START_SECONDS = 60.0
#: Numbers the callbacks of this program that have no folder of the user's.
_callbacks = itertools.count(1)
# Keeps a reference to each server, so that one that has ended does not stay a zombie.
_servers: list[subprocess.Popen[bytes]] = []


def tensorboard_callback(folder: str | os.PathLike[str] | None = None, **options: Any) -> Any:
    """Make a Keras callback that writes TensorBoard logs on the chief and does nothing on other workers.

    Parameters
    ----------
    folder : path, optional
        Folder of the logs. Default: ``tensorboard`` in the run directory of the job. Further callbacks of
        the program use its folders ``fit-2`` and so on, because curves in one folder would be one curve.
    **options
        Arguments of ``keras.callbacks.TensorBoard``; ``log_dir`` can replace `folder`.

    Returns
    -------
    keras.callbacks.Callback

    Raises
    ------
    DependencyError
        If TensorBoard is not installed.
    TfmusterError
        If no folder is given and this process is not a worker of ``tfmuster launch``.
    """
    _need_tensorboard()
    folder = options.pop("log_dir", folder)
    if folder is None:
        if (run_dir := own_run_dir()) is None:
            raise TfmusterError(
                "TensorBoard logs need a folder.",
                found=Words(
                    "no folder was given, and this process is not a worker of `{}`",
                    Code("tfmuster launch", "launch()", "tfmuster launch"),
                ),
                fix="Give `folder`, or launch the program.",
            )
        number = next(_callbacks)
        folder = run_dir / TENSORBOARD / (f"fit-{number}" if number > 1 else "")
    import_tensorflow()
    import keras

    from ...cluster.tf_config import is_chief

    if not is_chief():
        return keras.callbacks.Callback()
    return keras.callbacks.TensorBoard(log_dir=os.fspath(folder), **options)


def start_tensorboard(run: Run, *, port: int = 0) -> dict[str, Any]:
    """Start TensorBoard with the logs of a run on this machine's loopback. Return ``url`` and ``pid``.

    `port` 0 chooses a free one. The server runs until you end its process. Raises TfmusterError if the run
    has no logs of :func:`tensorboard_callback`, or TensorBoard does not start.
    """
    _need_tensorboard()
    folder = run.path / TENSORBOARD
    if not folder.is_dir():
        raise TfmusterError(
            f"The run {run.name} has no TensorBoard logs.",
            found=f"no {folder}",
            fix=Words(
                "Pass {}() to fit() or train_mnist().", Code("tensorboard_callback", "callback_tensorboard")
            ),
        )
    port = port or free_ports(1)[0]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    command = [*run_module("tensorboard.main"), "--logdir", str(folder), *place]
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
        fix=f"Start it manually to see its messages: {' '.join(command)}",
    )


def _need_tensorboard() -> None:
    if importlib.util.find_spec("tensorboard") is None:
        raise DependencyError(
            "TensorBoard is needed.",
            found=f"it is not installed for {python_executable()}",
            fix="pip install tensorboard",
            package="tensorboard",
        )
