"""An agent whose launcher does not answer."""

from __future__ import annotations

import socket

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.remote.agents.call_home import call_home


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        home = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(LaunchError) as caught:
            call_home([home], "secret", {}, 0.5)
    assert caught.value.found is not None and caught.value.found.startswith(f"{home}: ")
