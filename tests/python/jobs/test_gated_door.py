"""The door that stands where connections are accepted, before a server of Python's own sockets."""

from __future__ import annotations

import _socket
import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from support.launching import wait_until
from tfmuster.net import door as doors
from tfmuster.net import gated_door
from tfmuster.net.gated_door import SOURCE, AcceptGate, GatedDoor
from tfmuster.net.socket_table import has_table
from tfmuster.system.compiled import NotCompiled, compiled

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def gate() -> AcceptGate:
    if not has_table():
        pytest.skip("needs Linux")
    try:
        made = AcceptGate(compiled(SOURCE))
    except NotCompiled as error:
        pytest.skip(str(error))
    if not (hasattr(_socket, "__file__") and made.install(os.path.basename(_socket.__file__))):
        pytest.skip("this Python has its sockets built in")
    return made


class Guarded:
    """A server behind a door, which answers with what it reads. It waits for events as gRPC does."""

    def __init__(self, gate: AcceptGate) -> None:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.accepted, self.ended = 0, False
        self.woken = self.woken_when_shut = 0
        self.announced: list[tuple[tuple[str, int], tuple[str, int]]] = []
        self.refused: list[tuple[str, int | None]] = []
        self.door = GatedDoor(
            [self.address[1]],
            [],
            lambda here, there: self.announced.append((here, there)),
            lambda address, uid: self.refused.append((address, uid)),
            gate,
        )
        self.door.start()
        self.listener.listen()
        self.listener.setblocking(False)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with select.epoll() as events:
            events.register(self.listener, select.EPOLLIN | select.EPOLLET)
            while not self.ended:
                if events.poll(0.1):
                    self.woken += 1
                    self._accept_all()

    def _accept_all(self) -> None:
        """An event is not repeated for what was left."""
        with contextlib.suppress(BlockingIOError):
            while True:
                accepted = self.listener.accept()[0]
                accepted.setblocking(True)
                self.accepted += 1
                threading.Thread(target=self._echo, args=(accepted,), daemon=True).start()

    @staticmethod
    def _echo(accepted: socket.socket) -> None:
        with accepted:
            while data := accepted.recv(1000):
                accepted.sendall(data)

    def call(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=10)

    def close_door(self, *expected: tuple[str, int]) -> None:
        """Close the door. While somebody is announced, the kernel makes connections."""
        for end in expected:
            self.door.expect(end)
        self.door.close_when_quiet()
        wait_until(lambda: self.door.stage == "closed")

    def shut_door(self) -> None:
        self.close_door()
        wait_until(lambda: self.door._full)
        time.sleep(0.2)
        self.woken_when_shut = self.woken


@pytest.fixture
def guarded(gate: AcceptGate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    monkeypatch.setattr(doors, "QUIET_SECONDS", 0.2)
    made = Guarded(gate)
    yield made
    made.ended = True
    made.door.stop()
    made.door.join(5)
    made.listener.close()


def echoes(caller: socket.socket) -> bool:
    caller.sendall(b"hello")
    return caller.recv(100) == b"hello"


def is_closed(caller: socket.socket) -> bool:
    try:
        return caller.recv(100) == b""
    except ConnectionError:
        return True


def test_connections_of_the_same_user_are_let_in(guarded: Guarded) -> None:
    callers = [guarded.call() for _ in range(20)]
    assert all(map(echoes, callers))
    assert guarded.accepted == 20 and guarded.refused == []
    for caller in callers:
        caller.close()


def test_a_connection_of_another_user_is_closed_unread(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gated_door.os, "geteuid", lambda: os.getuid() + 1)
    with guarded.call() as caller:
        caller.sendall(b"hello")
        assert is_closed(caller)
    wait_until(lambda: guarded.refused)
    assert (guarded.refused, guarded.accepted) == ([("127.0.0.1", os.getuid())], 0)


def test_the_closed_door_answers_nobody_who_is_not_announced(guarded: Guarded) -> None:
    with guarded.call() as earlier:
        assert echoes(earlier)
        guarded.shut_door()
        for _ in range(20):
            with pytest.raises(TimeoutError):
                socket.create_connection(guarded.address, timeout=0.05)
        assert echoes(earlier)
    assert (guarded.accepted, guarded.woken) == (1, guarded.woken_when_shut)


def test_an_announced_connection_is_let_in_and_no_other(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door of the caller's process sees that it tries, and announces it. That happens again and again."""
    monkeypatch.setattr(gated_door, "HELD_SECONDS", 0.5)
    for turn in range(1, 4):
        guarded.shut_door()
        with socket.socket() as caller, socket.socket() as stranger:
            caller.settimeout(10)
            caller.bind(("127.0.0.1", 0))
            calling = threading.Thread(target=caller.connect, args=(guarded.address,))
            calling.start()
            here = caller.getsockname()
            wait_until(lambda here=here: (here, guarded.address) in guarded.announced)
            guarded.door.expect(here)
            stranger.settimeout(1)
            with contextlib.suppress(TimeoutError):
                stranger.connect(guarded.address)
                stranger.sendall(b"hello")
            calling.join()
            assert echoes(caller)
            # It is closed, or waits in the queue of the kernel.
            with contextlib.suppress(TimeoutError):
                assert is_closed(stranger)
        assert guarded.accepted == turn


def test_what_a_connection_sent_while_it_was_held_back_is_read(guarded: Guarded) -> None:
    guarded.close_door(("127.0.0.1", 1))
    with guarded.call() as caller:
        caller.sendall(b"hello")
        time.sleep(0.3)
        assert guarded.accepted == 0
        guarded.door.expect(caller.getsockname())
        assert caller.recv(100) == b"hello"


def test_of_many_strangers_the_oldest_are_closed(guarded: Guarded) -> None:
    guarded.close_door(("127.0.0.1", 1))
    callers = [guarded.call() for _ in range(gated_door._MOST_HELD + 20)]
    assert is_closed(callers[0]) and is_closed(callers[10])
    last = callers[-1]
    guarded.door.expect(last.getsockname())
    assert echoes(last)
    for caller in callers:
        caller.close()


def test_a_server_that_asks_again_and_again_is_not_kept_busy(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of its listener stays empty."""
    monkeypatch.setenv("GRPC_POLL_STRATEGY", "poll")
    monkeypatch.setattr(gated_door, "HELD_SECONDS", 0.2)
    guarded.close_door()
    with guarded.call() as stranger:
        stranger.sendall(b"hello")
        assert is_closed(stranger)
    assert guarded.accepted == 0


def test_other_ports_are_not_touched(guarded: Guarded) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as caller, listener.accept()[0] as accepted:
            caller.sendall(b"hello")
            assert accepted.recv(100) == b"hello"
    assert guarded.accepted == 0


def test_connections_one_after_the_other(guarded: Guarded) -> None:
    for _ in range(50):
        with guarded.call() as caller:
            assert echoes(caller)
