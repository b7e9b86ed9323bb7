"""Guard TensorFlow's port of this task: known peers get in, and when all are connected, nobody else."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Final

from ...cluster.spec import Task, hosts_of
from ...environment import OPEN_PORT_VARIABLE, is_on
from ...net.addresses import split_address
from ...net.door import Door, filters_work
from ...net.gated_door import SOURCE, AcceptGate, GatedDoor
from ...net.socket_table import has_table
from ...system.compiled import NotCompiled, compiled
from ...system.say import say
from ..chief.roster import LISTENING, read_end
from .control_channel import ControlChannel

#: After so many connections that were shut down, no more are printed.
_MOST_PRINTED = 5
#: How long a task waits for the chief's port, in seconds. Later, TensorFlow asks it once a second by itself.
_CHIEF_SECONDS: Final = 30.0


class PortGuard:
    """The guard of the ports of one task. A gate takes the place of filters.

    The control channel brings the addresses of the peers, and announcements of connections from them.
    """

    def __init__(self, task: Task, control: ControlChannel, gate: AcceptGate | None) -> None:
        self._task, self._control = task, control
        self._printed = 0
        ports = [split_address(task.address)[1]]
        self.door: Door = (
            Door(ports, control.peers, self._knock, self._refused)
            if gate is None
            else GatedDoor(ports, control.peers, self._knock, self._refused, gate)
        )

    def start(self) -> None:
        """Guard the port from the moment at which TensorFlow opens it."""
        if self._task.is_chief:
            self.door.on_open = lambda: self._control.send(LISTENING)
        self._control.on["knock"] = lambda message: self.door.expect(read_end(message["from"]))
        self.door.start()
        # A name server may be slow, and most peers were seen already.
        threading.Thread(target=self._look_up, name="tfmuster-names", daemon=True).start()

    def _knock(self, here: tuple[str, int], there: tuple[str, int]) -> None:
        """Announce a connection from `here`, in this process, to `there`, the port of a task."""
        self._control.send({"type": "knock", "from": list(here), "to": list(there)})

    def close_soon(self, *, after_first: bool) -> None:
        """Close the door soon, if connections that come later can be announced."""
        if self._control.active and self._control.direct:
            self.door.close_when_quiet(after_first=after_first)

    def _look_up(self) -> None:
        for host in sorted(hosts_of(self._task.cluster)):
            try:
                infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                continue
            self.door.admit({str(sockaddr[0]) for *_, sockaddr in infos})

    def _refused(self, address: str, uid: int | None) -> None:
        self._printed += 1
        if self._printed <= _MOST_PRINTED:
            who = address if uid is None else f"user {uid} of this machine"
            say(
                f"tfmuster: {self._task.name} has shut down a connection to TensorFlow's port, because it "
                f"came from {who}"
            )


_guards: list[PortGuard] = []


def guard_port(task: Task, control: ControlChannel) -> None:
    """Guard the port on which TensorFlow will listen here; the chief's process says if that is impossible."""
    if task.type == "evaluator" or _guards:
        return
    gate, why = (None, f"{OPEN_PORT_VARIABLE} is set") if is_on(OPEN_PORT_VARIABLE) else _gate(install=True)
    if why is not None:
        if task.is_chief:
            control.send(LISTENING)  # nobody sees when
            say(
                f"tfmuster: TensorFlow's port is open ({why}): everybody who reaches it, other users of this "
                f"machine included, can run commands as {_user()}; see docs/security.md"
            )
        return
    guard = PortGuard(task, control, gate)
    _guards.append(guard)
    guard.start()


def wait_for_chief() -> None:
    """Wait until the chief's port is open, before TensorFlow connects to it. Raises a failure as WorkerError.

    If TensorFlow finds the port closed, it tries again only after a second.
    """
    control = ControlChannel.current()
    if control is None or control.task.is_chief or not _guards:
        return
    deadline = time.monotonic() + _CHIEF_SECONDS
    while control.active and time.monotonic() < deadline and not control.chief_listens.wait(0.1):
        control.raise_failure()


def guarding_works() -> str | None:
    """Return why the port of a worker on this machine can't be guarded, or None if it can.

    It is not known whether TensorFlow accepts connections in the usual way.
    """
    return _gate(install=False)[1]


def _gate(*, install: bool) -> tuple[AcceptGate | None, str | None]:
    """Return the gate that this process needs, if filters are refused, and why the port can't be guarded."""
    why = filters_work()
    if why is None or not has_table():
        return None, why
    try:
        gate = AcceptGate(compiled(SOURCE))
    except (NotCompiled, OSError) as error:
        return None, f"{why}, and {error}"
    if install and not gate.install("tensorflow"):
        return None, f"{why}, and this TensorFlow accepts connections in an unknown way"
    return gate, None


def all_connected() -> None:
    """Close the door soon: the strategy stands, and with it the connections to all tasks."""
    for guard in _guards:
        guard.close_soon(after_first=False)


def serving() -> None:
    """Close the door soon after the first connection: the server of this task waits for a coordinator."""
    for guard in _guards:
        guard.close_soon(after_first=True)


def guard_also(port: int) -> None:
    """Guard one more port of this process."""
    for guard in _guards:
        guard.door.guard(port)


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
