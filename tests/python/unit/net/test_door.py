"""The door of a port of this process."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tfmuster.net import door as doors
from tfmuster.net import socket_table
from tfmuster.net.door import Door, filters_work
from tfmuster.net.socket_table import ESTABLISHED, LISTENING, own_sockets, state_of, table

pytestmark = pytest.mark.skipif(filters_work() is not None, reason=f"filters: {filters_work()}")


def until(happened: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


class Guarded:
    """An echo server behind a door."""

    def __init__(self) -> None:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.announced: list[tuple[tuple[str, int], tuple[str, int]]] = []
        self.refused: list[tuple[str, int | None]] = []
        self.door = Door(
            [self.address[1]],
            ["127.0.0.1"],
            lambda here, there: self.announced.append((here, there)),
            lambda address, uid: self.refused.append((address, uid)),
        )
        self.door.start()
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        assert self.door.guarding.wait(10)

    def _serve(self) -> None:
        kept = []
        while True:
            try:
                accepted = self.listener.accept()[0]
            except OSError:
                return
            kept.append(accepted)
            threading.Thread(target=self._echo, args=(accepted,), daemon=True).start()

    @staticmethod
    def _echo(accepted: socket.socket) -> None:
        while True:
            try:
                data = accepted.recv(1000)
            except OSError:
                return
            if not data:
                accepted.close()
                return
            accepted.sendall(data)

    def call(self, seconds: float = 5) -> socket.socket:
        return socket.create_connection(self.address, timeout=seconds)

    def close_door(self) -> None:
        self.door.close_when_quiet()
        until(lambda: self.door.stage == "closed")


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    monkeypatch.setattr(doors, "QUIET_SECONDS", 0.2)
    made = Guarded()
    yield made
    made.door.stop()
    made.door.join(5)
    made.listener.close()


def echoes(caller: socket.socket) -> bool:
    caller.sendall(b"hello")
    return caller.recv(100) == b"hello"


def test_a_connection_of_the_same_user_goes_on(guarded: Guarded) -> None:
    with guarded.call() as caller:
        assert echoes(caller)
    assert guarded.refused == []


def test_a_connection_of_another_user_is_shut_down(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors.os, "geteuid", lambda: os.getuid() + 1)
    with guarded.call() as caller:
        caller.sendall(b"hello")
        # The data were never read: the kernel answers with a reset or an end.
        with pytest.raises(ConnectionError):
            assert caller.recv(100) == b""
            raise ConnectionError
    until(lambda: guarded.refused)
    assert guarded.refused == [("127.0.0.1", os.getuid())]


def test_the_closed_door_lets_nobody_in(guarded: Guarded) -> None:
    with guarded.call() as earlier:
        assert echoes(earlier)
        guarded.close_door()
        with pytest.raises(TimeoutError):
            guarded.call(seconds=0.5)
        assert echoes(earlier)


def test_an_announced_connection_enters_by_the_closed_door(guarded: Guarded) -> None:
    guarded.close_door()
    # As a peer does: the door of this process sees its own connection, and announces it.
    caller = socket.socket()
    caller.settimeout(10)

    def here() -> list[tuple[str, int]]:
        # Other tests of this process may have left connections of their own, which are announced, too.
        return [here for here, there in guarded.announced if there == guarded.address]

    def announce() -> None:
        until(here)
        guarded.door.expect(here()[0])

    threading.Thread(target=announce, daemon=True).start()
    with caller:
        caller.connect(guarded.address)
        assert echoes(caller)
    with pytest.raises(TimeoutError):
        guarded.call(seconds=0.5)


def test_more_announcements_than_a_filter_holds_open_the_door_to_their_addresses(guarded: Guarded) -> None:
    guarded.close_door()
    with socket.socket() as caller:
        caller.bind(("127.0.0.1", 0))
        caller.settimeout(10)
        for port in range(1, 1500):
            guarded.door.expect(("127.0.0.1", port))
        guarded.door.expect(caller.getsockname())
        caller.connect(guarded.address)
        assert echoes(caller)


def test_descriptors_that_have_run_out_do_not_end_the_guard(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(descriptor: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socket_table.os, "dup", none_left)
        with guarded.call() as caller:
            caller.sendall(b"hello")
            time.sleep(0.2)
            patched.undo()
            assert caller.recv(100) == b"hello"


def test_a_connection_that_its_client_has_half_closed_is_judged(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not read, so the connection stays in this state."""
    monkeypatch.setattr(Guarded, "_echo", staticmethod(lambda accepted: None))
    monkeypatch.setattr(doors.os, "geteuid", lambda: os.getuid() + 1)
    with guarded.call() as caller:
        caller.shutdown(socket.SHUT_WR)
        until(lambda: guarded.refused)


def test_an_announcement_expires(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "EXPECTED_SECONDS", 0.3)
    guarded.close_door()
    guarded.door.expect(("127.0.0.1", 40000))
    until(lambda: not guarded.door._expected)


def test_a_server_closes_its_door_after_the_first_connection(guarded: Guarded) -> None:
    guarded.door.close_when_quiet(after_first=True)
    time.sleep(0.5)
    assert guarded.door.stage == "watched"
    with guarded.call() as caller:
        assert echoes(caller)
        until(lambda: guarded.door.stage == "closed")


def test_the_table_shows_both_ends_of_a_connection() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname()) as caller, listener.accept()[0] as accepted:
            ends = caller.getsockname(), accepted.getsockname()
            lines = table()
            (line,) = [line for line in lines if (line.here, line.there) == ends]
            assert (line.state, line.uid) == (ESTABLISHED, os.getuid())
            assert own_sockets()[line.inode] == caller.fileno()
            assert (ends[1], LISTENING) in [(line.here, line.state) for line in lines]
            assert state_of(caller) == ESTABLISHED and state_of(listener) == LISTENING


def test_ipv6_ends_are_read() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.bind(("::1", 0))
        except OSError:
            pytest.skip("no ::1")
        listener.listen()
        assert ("::1", listener.getsockname()[1]) in [line.here for line in table()]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
def test_this_machine_can_guard_a_port() -> None:
    assert filters_work() is None
