"""What the chief's program has written comes back, or is kept; nothing is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from tfmuster.launcher.remote.agents import outgoing as working_folder
from tfmuster.launcher.remote.agents.outgoing import WorkingFolder
from tfmuster.net.channel import JSON, Frame, Message, read_message


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def messages(frames: list[Frame]) -> list[Message]:
    return [read_message(frame.payload) for frame in frames if frame.kind == JSON]


def test_what_can_not_be_sent_is_kept_and_said(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[Frame] = []
    folder = WorkingFolder(work, 1, frames.append, lambda: ["files/refused"])
    not_utf_8 = os.fsdecode(b"\xff")
    for name in ("small", "locked", "refused", not_utf_8):
        (work / name).write_text("x")
    (work / "large").write_bytes(bytes(1 << 20))
    sent = working_folder.file_frames

    def file_frames(path: Path, name: str) -> Iterator[Frame]:
        if path.name == "locked":  # root may read everything
            raise PermissionError
        yield from sent(path, name)

    monkeypatch.setattr(working_folder, "file_frames", file_frames)
    folder.bring_back()
    said = messages(frames)
    assert sorted(each["path"] for each in said if each["type"] == "file") == ["files/refused", "files/small"]
    where = f"kept on {os.uname().nodename} in {folder.kept}"
    assert [each["text"] for each in said if each["type"] == "say"] == [
        "small came back, to files/ of the run directory",
        f"large: too large to come back, {where}",
        f"locked, refused, \\udcff: unreadable, or refused by the launcher, {where}",
    ]
    assert sorted(os.listdir(folder.kept)) == ["large", "locked", "refused", not_utf_8]
    assert folder.kept.stat().st_mode & 0o077 == 0


def test_what_the_launcher_has_not_acknowledged_is_kept(work: Path) -> None:
    folder = WorkingFolder(work, 1, lambda frame: None, SimpleQueue().get)
    (work / "model").write_text("a model")
    threading.Thread(target=folder.bring_back, daemon=True).start()
    # The agent's other thread, which ends it.
    assert folder.keep() == ["model"]
    assert (folder.kept / "model").read_text() == "a model"
