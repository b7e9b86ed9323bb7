"""A check that connects ends in time, whatever the name server does. It waits for two seconds."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from support.clock import in_time
from tfmuster import check_cluster


def test_connect_is_bounded_when_a_name_server_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def connect(*_: object) -> None:
        over.wait(30)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect)
    begun = time.monotonic()
    report = check_cluster(worker=["a:1", "b:1"], connect=True, timeout=0.1)
    assert in_time(begun, 4)
    over.set()
    assert [f.code for f in report.findings] == ["not-reachable"] * 2
