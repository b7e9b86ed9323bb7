"""What to do about the failure of a worker, where its error says enough."""

from __future__ import annotations

import re

from ...options.hints import Hint
from ...words import Words

#: Start of the error of a worker whose host has stopped answering.
LOST = "was lost: "

_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_FILE = re.compile(
    r"(?:FileNotFoundError: \[Errno 2\] No such file or directory"
    r"|.*NotFoundError: .*No such file or directory).*?['\"]([^'\"]+)['\"]"
)
#: An older reticulate, whose C code was compiled for numpy 1, says this when it converts an array.
_NUMPY_2 = re.compile(r"Required version of NumPy not available")
_NO_FILE_IN_R = re.compile(r".*cannot open (?:compressed )?file '([^']+)'.*No such file or directory")
_NO_MEMORY = re.compile(r"MemoryError\b|.*ResourceExhaustedError: .*OOM when allocating")


def advice_for(error: str, headline: str, *, host: str, here: str) -> str | None:
    """Return what to do about a failure, or None if that is not known.

    Parameters
    ----------
    error : str
        The error of the worker, as Python or R names it.
    headline : str
        The failure in one line.
    host, here : str
        The machines of the worker and of the launcher.
    """
    if "SIGKILL" in headline:
        return (
            "If nobody killed it, the machine ran out of memory: see `dmesg`. Use fewer workers or smaller "
            "batches."
        )
    if error.startswith(LOST):
        return f"Check that {host} is up, and that the network lets its connection last."
    if match := _NO_MODULE.match(error):
        return _install(match[1].partition(".")[0], host=None if host == here else host)
    if (match := _NO_FILE.match(error) or _NO_FILE_IN_R.match(headline)) and host != here:
        return _send(match[1], host)
    if _NO_MEMORY.match(error):
        return "Use smaller batches, fewer workers on this machine, or a smaller model."
    if _NUMPY_2.search(error):
        return (
            "This reticulate can't read numpy 2. Install numpy 1 with `pip install 'numpy<2'`, or update "
            "reticulate."
        )
    return None


def _install(module: str, *, host: str | None) -> str:
    where = "the Python that runs the workers" if host is None else f"the Python of the workers on {host}"
    if module in ("tensorflow", "keras"):
        from ...system.tensorflow_import import HOW_TO_INSTALL

        return f"Install TensorFlow for {where}: {HOW_TO_INSTALL}."
    if host is None:
        from ...system.interpreter import python_executable

        return f"Install {module} for {where}: {python_executable()} -m pip install {module}"
    return Words("Install {} for {}, or choose another with {}.", module, where, Hint("remote_python"))


def _send(path: str, host: str) -> str:
    if path.startswith("/"):
        return f"Put {path} on {host} and on the other hosts, or pass a path that exists there."
    return Words(
        "The path {} is relative to the working directory on {}. Send it with {}, or pass an absolute path "
        "that exists on all hosts.",
        path,
        host,
        Hint("files", path),
    )
