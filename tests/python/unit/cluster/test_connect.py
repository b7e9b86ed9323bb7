"""Addresses that are tried: which answer, and why none does."""

from __future__ import annotations

import socket

import pytest

from tfmuster import check_cluster


def test_connect_tells_apart_who_answers() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        here, gone = (each.getsockname()[1] for each in (listening, closed))
        closed.close()
        report = check_cluster(worker=[f"localhost:{here}", f"127.0.0.1:{gone}"], connect=True, timeout=5)
        assert [(f.code, f.where) for f in report.findings] == [("nothing-listens", "cluster.worker[1]")]
        assert report.ok


def test_connect_finds_unknown_names_and_silent_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(address: tuple[str, int], timeout: float) -> None:
        raise {"nowhere": socket.gaierror(-2, "Name or service not known"), "silent": TimeoutError()}.get(
            address[0], OSError(113, "No route to host")
        )

    monkeypatch.setattr(socket, "create_connection", connect)
    report = check_cluster(worker=["nowhere:1", "silent:1", "[2001:db8::1]:1"], connect=True, timeout=1)
    assert [f.code for f in report.findings] == ["name-not-found", "not-reachable", "not-reachable"]
    assert report.findings[1].message == "the address can't be reached from here: no answer within 1 s"
    assert not report.ok
