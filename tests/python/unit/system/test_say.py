"""What is said to the user, and who hears it."""

from __future__ import annotations

import threading

import pytest

from tfmuster.system.say import has_listener, heard_by, say


def test_a_listener_hears_lines_of_its_own_thread(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    assert not has_listener()
    with heard_by(heard.append):
        assert has_listener()
        say("one\ntwo\x1b[2J")
        # R takes output from its own thread only.
        other = threading.Thread(target=say, args=["of another thread"])
        other.start()
        other.join()
    say("afterwards")
    assert heard == ["one", "two"]
    assert capsys.readouterr().err == "of another thread\nafterwards\n"
