"""What a worker's run directory sends to the launcher, and what is kept of it there."""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from tfmuster.launcher.remote.agents.outgoing import Outgoing, files_below
from tfmuster.launcher.remote.files import PIECE, Arriving, DamagedError, file_frames, files_to_continue
from tfmuster.net.channel import FILE, JSON, Frame, read_message
from tfmuster.tracking.record.layout import ARRIVED, append_json


def arriving(folder: Path, part: Path) -> Arriving:
    """Keep all files below a folder."""
    return Arriving(part, lambda parts: True, lambda name: folder / name)


def checkpoint(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest() + text.encode()


class Launcher:
    """Keeps what arrives in a folder, and notes the names in their order."""

    def __init__(self, folder: Path) -> None:
        self.files = arriving(folder, folder / ".part")
        self.names: list[str] = []

    def hear(self, frame: Frame) -> None:
        if frame.kind == FILE:
            self.files.add(frame.payload)
            return
        assert frame.kind == JSON
        said = read_message(frame.payload)
        self.names.append(f"{said['type']} {said['path']}")
        if said["type"] == "file":
            assert self.files.keep(said)
        else:
            self.files.remove(said)


class Pair:
    """A host's run directory, and what the launcher has of it."""

    def __init__(self, folder: Path, before: Sequence[tuple[str, bytes]] = ()) -> None:
        self.there, self.here = folder / "there", folder / "here"
        for each in (self.there, self.here):
            (each / "checkpoints").mkdir(parents=True)
            for name, content in before:
                (each / name).write_bytes(content)
        self.launcher = Launcher(self.here)
        self.outgoing = Outgoing(self.there, self.launcher.hear)

    def write(self, name: str, content: bytes) -> None:
        (self.there / name).write_bytes(content)

    def look(self) -> list[str]:
        """Send what has changed, and return what was said of it."""
        self.launcher.names.clear()
        self.outgoing.look()
        while self.outgoing.turn():
            pass
        return list(self.launcher.names)

    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.here / "checkpoints").iterdir())


def test_a_checkpoint_is_sent_when_it_is_written_and_other_large_files_at_the_end(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    large = "x" * 200_000
    pair.write("checkpoints/000001.checkpoint", checkpoint(f"1{large}"))
    pair.write("checkpoints/.000002.checkpoint.1f.part", b"half")
    pair.write("checkpoints/mine.checkpoint", large.encode())
    pair.write("large", large.encode())
    pair.write("metrics.jsonl", b"{}\n")
    assert pair.look() == ["file metrics.jsonl", "file checkpoints/000001.checkpoint"]
    assert pair.look() == []
    pair.launcher.names.clear()
    pair.outgoing.rest()
    assert pair.launcher.names == ["file checkpoints/mine.checkpoint", "file large"]
    assert (pair.here / "checkpoints/000001.checkpoint").read_bytes() == checkpoint(f"1{large}")


def test_only_the_newest_is_sent_and_those_that_are_removed_are_removed_here(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for step in (1, 2):
        pair.write(f"checkpoints/{step}.checkpoint", checkpoint(str(step)))
    assert pair.look() == ["file checkpoints/2.checkpoint"]
    for step in (3, 4):
        pair.write(f"checkpoints/{step}.checkpoint", checkpoint(str(step)))
    for step in (1, 2):
        (pair.there / f"checkpoints/{step}.checkpoint").unlink()
    assert pair.look() == ["file checkpoints/4.checkpoint", "removed checkpoints/2.checkpoint"]
    assert pair.kept() == ["4.checkpoint"]
    pair.launcher.names.clear()
    pair.outgoing.rest()
    assert pair.launcher.names == ["file checkpoints/3.checkpoint"]


def test_one_of_a_later_step_does_not_keep_those_of_this_training_back(tmp_path: Path) -> None:
    """It can't be read, or is of another training, and stays in the folder."""
    pair = Pair(tmp_path, [("checkpoints/999.checkpoint", b"damaged")])
    pair.write("checkpoints/1.checkpoint", checkpoint("1"))
    assert pair.look() == ["file checkpoints/1.checkpoint"]


def test_what_the_launcher_has_sent_does_not_go_back(tmp_path: Path) -> None:
    before = [(f"checkpoints/{step}.checkpoint", checkpoint(str(step))) for step in (1, 2)]
    pair = Pair(tmp_path, [*before, ("metrics.jsonl", b"{}\n")])
    assert pair.look() == []
    pair.write("checkpoints/3.checkpoint", checkpoint("3"))
    (pair.there / "checkpoints/1.checkpoint").unlink()
    assert pair.look() == ["file checkpoints/3.checkpoint", "removed checkpoints/1.checkpoint"]
    assert pair.kept() == ["2.checkpoint", "3.checkpoint"]


def test_no_checkpoint_is_removed_before_the_launcher_has_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.write("checkpoints/1.checkpoint", checkpoint("1"))
    pair.look()
    pair.write("checkpoints/2.checkpoint", checkpoint("2"))
    (pair.there / "checkpoints/1.checkpoint").unlink()
    files = files_below(pair.there)
    # It is replaced between the look and its turn.
    (pair.there / "checkpoints/2.checkpoint").unlink()
    pair.write("checkpoints/3.checkpoint", checkpoint("3"))
    monkeypatch.setattr("tfmuster.launcher.remote.agents.outgoing.files_below", lambda _: files)
    assert pair.look() == []
    assert pair.kept() == ["1.checkpoint"]
    monkeypatch.undo()
    assert pair.look() == ["file checkpoints/3.checkpoint", "removed checkpoints/1.checkpoint"]


def test_output_has_its_turn_while_a_large_checkpoint_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(tmp_path)
    pair.write("checkpoints/1.checkpoint", checkpoint("x" * 500_000))
    monkeypatch.setattr("tfmuster.launcher.remote.agents.outgoing._TURN_SECONDS", 0.0)
    pair.outgoing.look()
    turns = 0
    while pair.outgoing.turn():
        turns += 1
        # What changes meanwhile does not get between its pieces.
        pair.write("small", str(turns).encode())
        pair.outgoing.look()
    assert turns > 4
    assert (pair.here / "checkpoints/1.checkpoint").read_bytes() == checkpoint("x" * 500_000)


@pytest.mark.parametrize("content", [b"", b"short", checkpoint("one")[:-1], b"x" + checkpoint("one")[1:]])
def test_a_damaged_checkpoint_is_not_kept(tmp_path: Path, content: bytes) -> None:
    files = arriving(tmp_path, tmp_path / ".part")
    (tmp_path / "1.checkpoint").write_bytes(checkpoint("earlier"))
    files.add(content)
    with pytest.raises(DamagedError, match=r"1\.checkpoint"):
        files.keep({"path": "1.checkpoint"})
    assert [path.name for path in tmp_path.iterdir()] == ["1.checkpoint"]
    # It does not spoil the next one, which arrives in pieces.
    for piece in (checkpoint("next")[:10], checkpoint("next")[10:33], checkpoint("next")[33:]):
        files.add(piece)
    assert files.keep({"path": "1.checkpoint"})
    assert (tmp_path / "1.checkpoint").read_bytes() == checkpoint("next")


class Broken(io.FileIO):
    """A file whose disk fails after the first piece."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(errno.EIO, "planted")
        return super().read(-1 if size is None else size)


def test_a_file_that_is_not_read_to_its_end_does_not_begin_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(2 * PIECE))
    frames = []
    with monkeypatch.context() as patched, pytest.raises(OSError, match="planted"):
        patched.setattr(Path, "open", lambda path, mode: Broken(path))
        for frame in file_frames(tmp_path / "a", "a"):
            frames.append(frame)
    *pieces, last = frames
    files = arriving(tmp_path / "here", tmp_path / ".part")
    for piece in pieces:
        files.add(piece.payload)
    with pytest.raises(DamagedError, match=r"^a$"):
        files.keep(read_message(last.payload))
    files.add(b"whole")
    assert files.keep({"path": "b"})
    assert (tmp_path / "here" / "b").read_bytes() == b"whole"


def test_what_a_killed_process_has_left_does_not_begin_the_next_file(tmp_path: Path) -> None:
    arriving(tmp_path, tmp_path / ".part").add(b"half of another")
    files = arriving(tmp_path, tmp_path / ".part")
    files.add(b"whole")
    assert files.keep({"path": "file"})
    assert (tmp_path / "file").read_bytes() == b"whole"


@pytest.mark.parametrize(
    "name", ["../2.checkpoint", "/2.checkpoint", "file", "9.checkpoint", "a/2.checkpoint"]
)
def test_nothing_else_is_removed(tmp_path: Path, name: str) -> None:
    """Not outside of the folder, no other file, and never the newest checkpoint."""
    here = tmp_path / "here"
    here.mkdir()
    paths = [tmp_path / "2.checkpoint", here / "file", here / "2.checkpoint", here / "9.checkpoint"]
    for path in paths:
        path.touch()
    arriving(here, here / ".part").remove({"path": name})
    assert all(path.exists() for path in paths)


def test_from_which_files_a_run_continues(tmp_path: Path) -> None:
    wanted = [
        "checkpoints/1.checkpoint",
        "checkpoints/2.checkpoint",
        "checkpoints-2/7.checkpoint",
        "metrics.jsonl",
        "state/of/mine",
    ]
    others = [
        *("train.py", "checkpoints/mine.checkpoint", "run.json", "logs/worker-0.log", "call/worker-0.pkl"),
        *("states/worker-0.json", "data/2.checkpoint"),
    ]
    for name in [*wanted, *others]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("state/of/mine", "gone", "run.json", "call/worker-0.pkl", "../out", ".hidden"):
        append_json(tmp_path / ARRIVED, {"file": name})
    assert files_to_continue(tmp_path, "worker 0") == [(str(tmp_path / name), name) for name in wanted]
