"""Everyone present, same cluster, same versions, reachable; or a named error in time.

Every task calls :func:`muster` before TensorFlow waits for anybody. The chief (else worker 0) listens on
its own address, the one port that is known to be open; the others report to it, try to reach each other,
close every listener so that TensorFlow may bind the ports, and go on together. The connection stays open as
the control line (:class:`tfmuster.control.Control`). The protocol is in docs/rendezvous.md.

Environment: ``TFMUSTER_START_TIMEOUT`` (seconds), ``TFMUSTER_TOKEN`` (the job's secret),
``TFMUSTER_RENDEZVOUS=0`` (go on without).
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .chief import Chief
from .cluster import Task
from .control import Control
from .errors import RendezvousError, TfmusterError
from .member import Member
from .ports import listen_patiently, port_problem, split_address
from .wire import Message

__all__ = ["DEFAULT_SECONDS", "installed_versions", "muster", "start_timeout"]

#: Time for everyone to arrive, unless told otherwise, seconds.
DEFAULT_SECONDS: Final = 60.0
#: How long a port that is taken is tried again: a process of an earlier job may be ending, seconds.
_PORT_SECONDS = 3.0
_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly", "tf-nightly-cpu")

Progress = Callable[[Message], None]


def muster(
    task: Task,
    *,
    timeout: float | None = None,
    token: str | None = None,
    versions: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> Control:
    """Wait until all tasks of the cluster are present and agree.

    A second call for the same task returns the control line of the first.

    Parameters
    ----------
    task : Task
        The task of this process.
    timeout : float, optional
        Time for everyone to arrive, in seconds; default: ``TFMUSTER_START_TIMEOUT``, else 60. The shortest
        of all tasks counts.
    token : str, optional
        The job's secret, the same for every task; default: ``TFMUSTER_TOKEN``, else none. With it every
        message is authenticated.
    versions : mapping of str, optional
        Versions that must be equal on every task; default: :func:`installed_versions`.
    on_progress : callable, optional
        Called in this thread, from about one second of waiting on, with a dict: ``text`` (one line), and,
        once the chief is reached, ``arrived`` and ``expected`` (numbers of tasks) and ``waiting`` (names).
        Default: the text goes to stderr.

    Returns
    -------
    Control
        The line to the chief. ``TFMUSTER_RENDEZVOUS=0``: one without a connection.

    Raises
    ------
    RendezvousError
        Not everyone came in time, or not with the same cluster and versions, or can't reach the others: the
        same message and fields on every task (see :func:`tfmuster.verdict.rendezvous_error`).
    """
    current = Control.current()
    if current is not None and current.active and current.task == task:
        return current
    control = Control(task)
    if os.environ.get("TFMUSTER_RENDEZVOUS") != "0":
        _meet(
            control,
            start_timeout(timeout),
            token or os.environ.get("TFMUSTER_TOKEN") or None,
            dict(installed_versions() if versions is None else versions),
            on_progress or print_progress,
        )
    Control.make_current(control)
    return control


def start_timeout(timeout: float | None = None) -> float:
    """The time for everyone to arrive, in seconds: the argument, else ``TFMUSTER_START_TIMEOUT``, else 60.

    Raises
    ------
    TfmusterError
        It is not a positive number.
    """
    given: Any = os.environ.get("TFMUSTER_START_TIMEOUT", DEFAULT_SECONDS) if timeout is None else timeout
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < 1e9:
        where = "TFMUSTER_START_TIMEOUT" if timeout is None else "timeout"
        raise TfmusterError(
            f"{where} must be a positive number of seconds.",
            found=repr(given),
            fix="give a number such as 60",
        )
    return seconds


def installed_versions() -> dict[str, str]:
    """Versions of tfmuster, TensorFlow, Keras and Python, without importing them; "none" if not installed.

    Python's is major.minor only: that is what decides whether models and code can be exchanged.
    """
    from . import __version__

    return {
        "tfmuster": __version__,
        "tensorflow": _version_of(*_TENSORFLOW_PACKAGES),
        "keras": _version_of("keras", "keras-nightly"),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def _version_of(*packages: str) -> str:
    from importlib import metadata

    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "none"


def print_progress(progress: Message) -> None:
    """Say on stderr for whom this task waits."""
    print(f"tfmuster: {progress['text']}", file=sys.stderr, flush=True)


def _meet(
    control: Control, seconds: float, token: str | None, versions: dict[str, str], on_progress: Progress
) -> None:
    task = control.task
    deadline = time.monotonic() + seconds
    port = split_address(task.address)[1]
    chief: Chief | None = None
    listener = trouble = None
    if task.type != "evaluator":
        try:
            listener = listen_patiently(port, min(_PORT_SECONDS, seconds / 2))
        except OSError as error:
            trouble = port_problem(port, error)
    if task.is_chief and listener is not None:
        chief = Chief(task, listener, token=token, versions=versions, deadline=deadline, limit=seconds)
        chief.start()
        listener = None
    member = Member(
        task,
        deadline=deadline,
        limit=seconds,
        token=token,
        versions=versions,
        listener=listener,
        port_trouble=trouble,
        chief=chief,
        on_progress=on_progress,
    )
    try:
        chief_process = member.run()
    except BaseException as error:
        member.close()
        if member.chief is not None:
            # Those who are here must hear it before this process, and with it the connection, ends.
            known = isinstance(error, RendezvousError)
            member.chief.abandon(None if known else f"{type(error).__name__} {error}".strip())
        raise
    control.start(member.hub, member.line_to_chief(), member.chief, chief_process)
