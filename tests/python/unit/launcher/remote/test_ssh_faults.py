"""What ssh says, in words."""

from __future__ import annotations

import pytest

from tfmuster.launcher.remote.host_checks import explain_ssh_failure


@pytest.mark.parametrize(
    ("said", "code", "name"),
    [
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            255,
            "host-key-changed",
        ),
        ("Host key verification failed.", 255, "host-key-unknown"),
        (
            "No ED25519 host key is known for node1 and you have requested strict checking.",
            255,
            "host-key-unknown",
        ),
        ("me@node1: Permission denied (publickey).", 255, "no-login"),
        ("ssh: Could not resolve hostname node1: Name or service not known", 255, "name-unknown"),
        ("ssh: connect to host node1 port 22: Connection refused", 255, "no-sshd"),
        ("ssh: connect to host node1 port 22: Connection timed out", 255, "unreachable"),
        ("kex_exchange_identification: read: Connection reset by peer", 255, "busy"),
        ("bash: line 1: /x/python: No such file or directory", 127, "no-python"),
        ("zsh:1: permission denied: /x/python", 126, "no-python"),
        ("ModuleNotFoundError: No module named 'tfmuster'", 1, "no-tfmuster"),
        ("ModuleNotFoundError: No module named 'orjson'", 1, "no-module"),
        ("This account is currently not available.", 1, "no-agent"),
        ("", None, "no-agent"),
    ],
)
def test_what_ssh_says_in_words(said: str, code: int | None, name: str) -> None:
    found = explain_ssh_failure("node1", said, code, 60)
    assert found["code"] == name
    assert found["message"] and found["fix"] and "{" not in found["message"] + found["fix"]
