"""What a command that names the hosts of a job may do and print."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import processes_in, wait_until
from tfmuster.errors import LaunchError
from tfmuster.launcher.remote.membership import discovered_hosts


@pytest.mark.parametrize(
    "command", ["sleep 60", "trap '' TERM; sleep 60 & echo node1:1; wait", "yes node1:1"]
)
def test_a_command_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    """It and what it has started are ended, whatever it has printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tfmuster.launcher.remote.membership._ANSWER_SECONDS", 0.3)
    with pytest.raises(LaunchError, match=r"does not answer within 0\.3 s; the command: ") as caught:
        discovered_hosts(command)
    assert caught.value.fields["reason"] == "hosts-from"
    wait_until(lambda: not processes_in(tmp_path), 2)


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("node1:0", "line 1"),
        ("node1:-1", "line 1"),
        ("-oProxyCommand=x:1", "line 1"),
        ("node1:1\nnode2:1\nnode1:1", "line 3: 'node1' is named twice"),
        ("\x1b[2J", "line 1"),
        ("\xff\xfe", "line 1"),
    ],
)
def test_what_a_command_may_not_print(tmp_path: Path, printed: str, found: str) -> None:
    (tmp_path / "printed").write_bytes(printed.encode("latin-1"))
    with pytest.raises(LaunchError) as caught:
        discovered_hosts(f"cat {tmp_path}/printed")
    assert caught.value.fields["reason"] == "hosts-from"
    assert str(caught.value.found).startswith(found) and str(caught.value.found).isprintable()


def test_a_command_may_name_no_hosts() -> None:
    """A job that runs is not ended for it."""
    assert discovered_hosts("echo") == ()
