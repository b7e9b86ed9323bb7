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


def test_a_text_and_the_end_of_its_line_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a buffer, as in a worker, another thread's traceback would come between two writes.
    written: list[str] = []
    monkeypatch.setattr("sys.stderr.write", written.append)
    say("worker 0 failed")
    assert [text for text in written if text] == ["worker 0 failed\n"]
