"""What a notice command may say, and that one that hangs or does not exist is named once and harmless."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from support.clock import in_time
from support.launching import wait_until
from tfmuster.rendezvous import preemption as notice
from tfmuster.rendezvous.preemption import PreemptionNotice


def looked(asked: PreemptionNotice, seconds: float) -> bool:
    """Whether there is a notice within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        if asked.given():
            return True
        # It does not wait for the command.
        assert in_time(begun, 5)
        time.sleep(0.02)
    return False


def sleeping() -> list[psutil.Process]:
    # The title of a process of pytest-xdist has the test's name.
    return [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "61.5"]]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "ASK_SECONDS", 0.5)


def test_it_is_asked_until_it_succeeds(tmp_path: Path) -> None:
    asked = PreemptionNotice(f"echo x >> {tmp_path}/asked; test -e {tmp_path}/taken")
    assert not looked(asked, 1.3)
    assert 2 <= len((tmp_path / "asked").read_text().split()) <= 3
    (tmp_path / "taken").touch()
    assert looked(asked, 3)


def test_without_a_command_there_is_no_notice() -> None:
    assert not looked(PreemptionNotice(""), 0.1)


@pytest.mark.parametrize(
    ("command", "why"), [("sleep 61.5 && true", "no answer"), ("no-such-command", "can't run it")]
)
def test_one_that_says_nothing_is_named_once(
    command: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert not looked(PreemptionNotice(command), 2)
    said = [line for line in capfd.readouterr().err.splitlines() if "notice command" in line]
    assert len(said) == 1 and why in said[0] and command in said[0]
    # The last one may just have been asked.
    wait_until(lambda: len(sleeping()) <= 1)
    for each in sleeping():
        each.kill()
