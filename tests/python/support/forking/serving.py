"""Serve forks: what `server.py`, for Python programs, and `server.R`, for those of R, have in common.

The process that hands a program over stays, and stands for it: to the launcher it is the worker. Its process
id is the program's, its signals and its end reach the program, and it ends as the program ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import os
import random
import selectors
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from sitecustomize import end_as

#: A request is one message: three file descriptors, and this many bytes of JSON at most.
LARGEST = 1 << 20
#: Without the folder of this file.
PATH = [each for each in sys.path if each != os.path.dirname(__file__)]
#: Namespaces that a program shares with its representative. The last is that of mounts, which has /proc.
SPACES = ("pid", "net", "uts", "ipc", "mnt")
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class Server:
    """Forks a child for each request, and tells its representative how the child has ended.

    What programs import is imported by ``prepare``, for the first of them.
    """

    def __init__(self, listener: socket.socket, prepare: Callable[[], object]) -> None:
        self._listener = listener
        self._prepare: Callable[[], object] | None = prepare
        #: Environment variables that this has set.
        self.variables: dict[str, str] = {}
        self._representatives: dict[int, socket.socket] = {}
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)
        # It ends with the process that has started it, whose end of this pipe the kernel closes.
        self._selector.register(0, selectors.EVENT_READ)

    def next_child(self) -> tuple[dict[str, Any], list[int]]:
        """Serve. Return, in a child, the request and its descriptors."""
        while True:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    for pid in self._representatives:
                        kill(pid)
                    os._exit(0)
                elif key.fd == self._woken:
                    os.read(self._woken, 4096)
                elif key.fileobj is not self._listener:
                    # The representative was killed.
                    kill(key.data)
                    self._selector.unregister(key.fileobj)
                elif child := self._fork():
                    return child
            self._reap()

    def _fork(self) -> tuple[dict[str, Any], list[int]] | None:
        representative, _ = self._listener.accept()
        # It may be stopped before it has sent anything.
        representative.settimeout(10)
        try:
            text, descriptors, _, _ = socket.recv_fds(representative, LARGEST, 3)
        except TimeoutError:
            text = b""
        if not text:
            representative.close()
            return None
        self._import()
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for each in (self._listener, *self._representatives.values()):
                each.close()
            os.close(self._woken)
            os.close(self._wakes)
            known = representative.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            enter_spaces(struct.unpack("3i", known)[0])
            representative.send(f"runs {os.getpid()}".encode())
            representative.close()
            return json.loads(text), list(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._representatives[pid] = representative
        self._selector.register(representative, selectors.EVENT_READ, pid)
        return None

    def _import(self) -> None:
        if self._prepare is None:
            return
        before = dict(os.environ)
        self._prepare()
        self._prepare = None
        self.variables = dict(set(os.environ.items()) - set(before.items()))
        # Children would copy each page of objects that the collector marks.
        gc.collect()
        gc.freeze()

    def _reap(self) -> None:
        while self._representatives:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            # An import may have started others.
            if (representative := self._representatives.pop(pid, None)) is None:
                continue
            with contextlib.suppress(KeyError):
                self._selector.unregister(representative)
            with contextlib.suppress(OSError):
                representative.send(f"ended {os.waitstatus_to_exitcode(status)}".encode())
            representative.close()


def kill(pid: int) -> None:
    """Kill a program and what is in its group, as the launcher kills a worker's group."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


def enter_spaces(pid: int) -> None:
    """Join the namespaces of a process, which may be of another machine that a test has made."""
    paths = {kind: f"/proc/{pid}/ns/{kind}" for kind in SPACES}
    other = {
        kind: os.open(path, os.O_RDONLY)
        for kind, path in paths.items()
        if not os.path.samefile(path, f"/proc/self/ns/{kind}")
    }
    for kind, descriptor in other.items():
        if LIBC.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), f"no way into the namespace {kind} of process {pid}")
        os.close(descriptor)
    if "pid" in other:
        # Only a child of this process has an id there.
        if child := os.fork():
            end_as(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stand_for(pid: int, parent: int) -> None:
    """Give this process the id and the parent of its representative, but not those that it forks."""
    getpid, getppid, send = os.getpid, os.getppid, os.kill

    def restore() -> None:
        os.getpid, os.getppid, os.kill = getpid, getppid, send

    def to_itself(other: int, number: int) -> None:
        # What stops it must be seen of its representative, too, which learns of its end by itself.
        if other != pid or number == signal.SIGSTOP:
            send(other, number)
        if other == pid:
            send(getpid(), number)

    os.getpid, os.getppid, os.kill = lambda: pid, lambda: parent, to_itself
    os.register_at_fork(after_in_child=restore)


def become(
    request: dict[str, Any], descriptors: list[int], variables: dict[str, str], before_others: int = 0
) -> None:
    """Give this process what the one that it stands for had when its Python had started.

    ``variables`` are those that this process has and the other one would come to have; ``before_others`` is
    the number of folders that Python searches before those of PYTHONPATH.
    """
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        if descriptor > 2:
            os.close(descriptor)
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update({**variables, **request["environ"]})
    stand_for(request["pid"], request["parent"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "w", closefd=False)
        stream = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),  # type: ignore[arg-type]
            encoding=request["encoding"],
            errors=request["errors"][number - 1],
            write_through=unbuffered,
            line_buffering=not unbuffered and (number == 2 or os.isatty(number)),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if "jax" in sys.modules:
        # It has read its settings when it was imported.
        config = sys.modules["jax"].config
        for name, value in os.environ.items():
            if name.startswith("JAX_") and name.lower() in config.values:
                config.update(name.lower(), value)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    others = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [*PATH[:before_others], *others, *PATH[before_others:]]
    # Their modules have a state that all children would share.
    tempfile.tempdir = None
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.forked_for_test = True  # type: ignore[attr-defined]
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ImportError):
        import sitecustomize  # noqa: F401  - the launcher's, with its hooks
