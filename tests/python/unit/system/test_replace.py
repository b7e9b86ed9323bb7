"""A file or folder that is replaced is the old or the new one, and nothing else is left."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from support.launching import names
from tfmuster.system.replace import PART, replacing_file, replacing_path
from tfmuster.tracking.record.layout import read_json, write_json


def test_a_file_is_there_when_the_block_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"first", b"second"):
        with replacing_file(path) as file:
            before = path.read_bytes() if path.exists() else None
            file.write(content)
            file.flush()
            assert (path.read_bytes() if path.exists() else None) == before
            (part,) = (name for name in names(tmp_path) if name != "file")
            # Hidden, and of no suffix that something looks for.
            assert part.startswith(".file.") and part.endswith(PART)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(error), replacing_file(tmp_path / "file") as file:
        file.write(b"half")
        raise error
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_name_that_cannot_be_taken_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError), replacing_file(tmp_path / "folder") as file:
        file.write(b"new")
    assert names(tmp_path) == ["folder"]
    with pytest.raises(FileNotFoundError), replacing_file(tmp_path / "none" / "file"):
        pass


@pytest.mark.parametrize(
    ("given", "umask", "found"),
    [({}, 0o022, 0o644), ({}, 0o027, 0o640), ({"mode": 0o600}, 0o022, 0o600), ({"mode": 0o600}, 0, 0o600)],
)
def test_permissions(tmp_path: Path, given: dict[str, int], umask: int, found: int) -> None:
    before = os.umask(umask)
    try:
        with replacing_file(tmp_path / "file", **given) as file:
            # From the first byte on.
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == found
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == found


def test_what_waits_for_the_disk_has_been_flushed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    fsync = os.fsync

    def noted(number: int) -> None:
        fsync(number)
        sizes.append(os.fstat(number).st_size)
        assert not (tmp_path / "file").exists()

    monkeypatch.setattr(os, "fsync", noted)
    with replacing_file(tmp_path / "file", sync=True) as file:
        file.write(b"content")
    assert sizes == [7]
    with replacing_file(tmp_path / "file") as file:
        file.write(b"content")
    assert sizes == [7]


def test_several_threads_replace_one_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"who": 0, "text": ""})
    over = threading.Event()
    failed: list[BaseException] = []

    def write(who: int) -> None:
        try:
            for _ in range(100):
                write_json(path, {"who": who, "text": str(who) * 5000})
        except BaseException as error:
            failed.append(error)

    def read() -> None:
        while not over.is_set():
            found = read_json(path)
            if found.get("text", "no") not in ("", str(found.get("who")) * 5000):
                failed.append(AssertionError(str(found)[:100]))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(who,)) for who in range(1, 5)]
    for thread in [reader, *writers]:
        thread.start()
    for thread in writers:
        thread.join(30)
    over.set()
    reader.join(30)
    assert not failed
    assert names(tmp_path) == ["state.json"]


@pytest.mark.parametrize("old", ["none", "file", "folder", "link"])
@pytest.mark.parametrize("new", ["file", "folder"])
def test_files_and_folders_replace_each_other(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "model.keras"
    if old == "file":
        path.write_text("old")
    elif old == "folder":
        path.mkdir()
        (path / "old").write_text("old")
    elif old == "link":
        (tmp_path / "other").mkdir()
        path.symlink_to("other")
    if new == "folder" and old in ("file", "link"):
        with pytest.raises(OSError), replacing_path(path) as part:
            part.mkdir()
        assert names(tmp_path) == sorted(["model.keras", *(["other"] if old == "link" else [])])
        assert path.read_text() == "old" if old == "file" else path.is_symlink()
        return
    with replacing_path(path) as part:
        assert part.name == "model.keras"
        if new == "folder":
            part.mkdir()
            (part / "new").write_text("new")
        else:
            part.write_text("new")
            part.with_suffix(".extra").write_text("what a program writes beside it")
    assert (path / "new" if new == "folder" else path).read_text() == "new"
    assert not path.is_symlink()
    assert not (path / "old").exists()
    assert names(tmp_path) == sorted(["model.keras", *(["other"] if old == "link" else [])])


def test_a_folder_stays_when_nothing_has_been_written(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "old").write_text("old")
    with pytest.raises(FileNotFoundError), replacing_path(tmp_path / "served"):
        pass
    assert names(tmp_path) == ["served"]
    assert names(tmp_path / "served") == ["old"]
