"""One checkpoint as one file, whole or not there."""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import orjson
import psutil
import pytest

from tfmuster.errors import CheckpointError, TfmusterWarning
from tfmuster.system.processes import birth
from tfmuster.training import checkpoint_files as checkpoints
from tfmuster.training.checkpoint_contents import FIELDS

VALUES = [np.arange(5.0), np.array(3)]


def test_newest_that_is_whole(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path) is None
    for step in (1, 2, 3):
        checkpoints.write(tmp_path, step, {"epoch": step, "step": 0}, VALUES)
    newest = checkpoints.newest(tmp_path)
    assert newest is not None and newest.step == 3
    position, values = checkpoints.unpack(newest.content)
    assert position == {"epoch": 3, "step": 0}
    assert [value.tolist() for value in values] == [value.tolist() for value in VALUES]


@pytest.mark.parametrize("damage", ["torn", "changed", "empty", "not a file"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        checkpoints.write(tmp_path, step, {"epoch": step}, VALUES)
    newest = tmp_path / "000000000002.checkpoint"
    content = bytearray(newest.read_bytes())
    content[100] ^= 1
    newest.unlink()
    if damage == "not a file":
        newest.mkdir()
    else:
        newest.write_bytes({"torn": content[:-7], "changed": content, "empty": b""}[damage])
    with pytest.warns(TfmusterWarning, match=r"000000000002\.checkpoint is skipped"):
        found = checkpoints.newest(tmp_path)
    assert found is not None
    assert checkpoints.unpack(found.content)[0] == {"epoch": 1}


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    for step in range(5):
        checkpoints.write(tmp_path, step, {}, VALUES)
    checkpoints.remove_old(tmp_path, 2, step=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n:012d}.checkpoint" for n in (3, 4)]


def test_those_that_cannot_be_read_do_not_take_the_place_of_others(tmp_path: Path) -> None:
    needed = {name: FIELDS[name] for name in ("epoch", "step")}
    for step in (900, 1000):
        (tmp_path / f"{step:012d}.checkpoint").write_bytes(b"damaged")
    # Of another version, and not even a file.
    checkpoints.write(tmp_path / "other", 12, {"epoch": 12}, VALUES)
    (tmp_path / "other" / f"{12:012d}.checkpoint").rename(tmp_path / f"{12:012d}.checkpoint")
    (tmp_path / f"{13:012d}.checkpoint").mkdir()
    stay = {12, 13, 900, 1000}
    for step, kept in ((10, {10}), (11, {10, 11}), (14, {11, 14}), (15, {14, 15})):
        checkpoints.write(tmp_path, step, {"epoch": step, "step": 0}, VALUES)
        checkpoints.remove_old(tmp_path, 2, step, needed)
        assert set(checkpoints.steps(tmp_path)) == kept | stay
    with pytest.warns(TfmusterWarning, match="is skipped: it is damaged or incomplete") as warned:
        newest = checkpoints.newest(tmp_path, needed)
    assert len(warned) == 2
    assert newest is not None and newest.step == 15


def test_those_of_a_later_step_stay(tmp_path: Path) -> None:
    """They were not readable when this training began, such as by a fault of the disk, or are another's."""
    for step in (1, 2, 50, 60):
        checkpoints.write(tmp_path, step, {}, VALUES)
    checkpoints.remove_old(tmp_path, 1, step=2)
    assert checkpoints.steps(tmp_path) == [60, 50, 2]


def test_those_of_an_earlier_process_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2, 3):
        checkpoints.write(tmp_path, step, {}, VALUES)
    monkeypatch.setattr(checkpoints, "_readable", {})
    damaged = tmp_path / f"{1:012d}.checkpoint"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    checkpoints.write(tmp_path, 4, {}, VALUES)
    checkpoints.remove_old(tmp_path, 2, step=4)
    assert checkpoints.steps(tmp_path) == [4, 3, 1]


def test_a_full_disk_leaves_the_last_good_one(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, 1, {"epoch": 1}, VALUES)
    resource = pytest.importorskip("resource")
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # A write past this limit fails as one on a full disk does, half way.
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        with pytest.raises(CheckpointError, match="the earlier ones are intact") as caught:
            checkpoints.write(tmp_path, 2, {"epoch": 2}, [np.zeros(100_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.fields["reason"] == "write"
    assert [path.name for path in tmp_path.iterdir()] == ["000000000001.checkpoint"]


def test_a_file_that_is_no_checkpoint_is_passed_over(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, 1, {"epoch": 1, "step": 0}, VALUES)
    checkpoints.write(tmp_path, 2, {"epoch": 2}, VALUES)
    (tmp_path / "abc.checkpoint").write_bytes(b"")
    (tmp_path / "000000000003.checkpoint").write_bytes(hashlib.sha256(b"no archive").digest() + b"no archive")
    assert checkpoints.steps(tmp_path) == [3, 2, 1]
    with pytest.warns(TfmusterWarning) as warned:
        found = checkpoints.newest(tmp_path, {name: FIELDS[name] for name in ("epoch", "step")})
    texts = sorted(str(each.message).partition(f"{tmp_path}/")[2] for each in warned)
    assert texts == [
        "000000000002.checkpoint is skipped: it lacks step",
        "000000000003.checkpoint is skipped: it has no archive of arrays",
        "abc.checkpoint is skipped: its name must be a number of steps",
    ]
    assert found is not None
    assert checkpoints.unpack(found.content)[0] == {"epoch": 1, "step": 0}
    checkpoints.remove_old(tmp_path, 1, step=2)
    assert (tmp_path / "abc.checkpoint").exists()


def packed(compression: int = zipfile.ZIP_DEFLATED, value: bytes | None = None) -> bytes:
    """A checkpoint's archive."""
    file, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.arange(50.0))
    about = io.BytesIO()
    np.save(about, np.frombuffer(b"{}", np.uint8))
    with zipfile.ZipFile(file, "w", compression) as made:
        made.writestr("about.npy", about.getvalue())
        made.writestr("value_0.npy", array.getvalue() if value is None else value)
    return file.getvalue()


def changed(*places: int, number: int) -> bytes:
    """An archive with another number at these places of its local and its central headers."""
    raw = bytearray(packed())
    for mark, place in zip((b"PK\3\4", b"PK\1\2"), places, strict=True):
        for found in re.finditer(mark, raw):
            raw[found.start() + place : found.start() + place + 2] = struct.pack("<H", number)
    return bytes(raw)


def array_of(header: str) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode()


SHAPED = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,)}\n"


@pytest.mark.parametrize(
    "archive",
    [
        changed(8, 10, number=99),
        changed(6, 8, number=1),
        packed().replace(b"value_0.npy", b"value_0.npy" + b"\xff" * 8, 1),
        packed(value=array_of(SHAPED % 10**15)),
        packed(value=array_of(SHAPED % 10**40)),
        packed(value=array_of("((((\n")),
    ],
    ids=["compression", "encryption", "deflate", "large", "larger", "syntax"],
)
def test_a_checkpoint_of_another_form_is_passed_over(tmp_path: Path, archive: bytes) -> None:
    checkpoints.write(tmp_path, 1, {}, VALUES)
    (tmp_path / f"{2:012d}.checkpoint").write_bytes(hashlib.sha256(archive).digest() + archive)
    with pytest.warns(TfmusterWarning, match="is skipped: it has no archive of arrays"):
        newest = checkpoints.newest(tmp_path)
    assert newest is not None and newest.step == 1


OWNER = {"job": "run", "name": None, "optimizer": "SGD", "weights": [["kernel", [3, 1]], ["bias", []]]}
DATA = {"TensorFlow": "2.21.0", "seed": None, "steps": 2, "elements": ["[3] float32"], "rows": "1 2"}
SETTINGS = {"rate": 0.1, "clip": None, "ema": False}
GOOD = {
    **{"epoch": 1, "step": 0, "state": 1, "history": {"loss": [0.5]}},
    **{"of": OWNER, "data": DATA, "settings": SETTINGS, "checksum": "00000000"},
}


def without(entries: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in entries.items() if key != name}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in ("epoch", "step", "state") for value in ("1", -1, True, 1.0, None)],
        *[("history", value) for value in ([], "abc", {"loss": None}, {"loss": "abc"})],
        *[(name, value) for name in ("of", "data", "settings") for value in ([], "x", 1)],
        *[
            ("of", {**OWNER, "weights": value})
            for value in (None, 5, [5], [[1]], [["kernel", 5]], [["kernel", ["3"]]])
        ],
        *[("of", {**OWNER, name: value}) for name in ("job", "name", "optimizer") for value in (5, ["x"])],
        ("of", {**OWNER, "optimizer": None}),
        *[("of", without(OWNER, name)) for name in OWNER],
        *[("data", {**DATA, "x": value}) for value in ([1], {})],
        *[("data", without(DATA, name)) for name in ("TensorFlow", "seed")],
        *[("settings", {"x": value}) for value in ([1], {}, ["a text"])],
    ],
)
def test_fields_of_a_wrong_type_are_passed_over(tmp_path: Path, name: str, value: object) -> None:
    checkpoints.write(tmp_path, 1, GOOD, VALUES)
    checkpoints.write(tmp_path, 2, {**GOOD, name: value}, VALUES)
    with pytest.warns(TfmusterWarning, match=f"is skipped: it has something else as {name}"):
        newest = checkpoints.newest(tmp_path, FIELDS)
    assert newest is not None and newest.step == 1


def test_fields_as_they_are_written_are_read(tmp_path: Path) -> None:
    checkpoints.write(tmp_path, 1, GOOD, VALUES)
    newest = checkpoints.newest(tmp_path, FIELDS)
    assert newest is not None and checkpoints.unpack(newest.content)[0] == GOOD


def test_a_folder_belongs_to_one_living_job(tmp_path: Path) -> None:
    checkpoints.claim(tmp_path)
    checkpoints.claim(tmp_path)
    note = tmp_path / ".owner.json"
    said = orjson.loads(note.read_bytes())
    assert said["pid"] == os.getpid()
    # The process that started the tests stands for another job.
    other = psutil.Process(os.getppid())
    living = {**said, "pid": other.pid, "birth": birth(other), "job": "theirs"}
    note.write_bytes(orjson.dumps(living))
    with pytest.raises(CheckpointError, match="at the same time") as caught:
        checkpoints.claim(tmp_path)
    assert caught.value.found == f"process {other.pid} (theirs) writes to {tmp_path}"
    assert caught.value.fields["reason"] == "other-job"
    for ended in ({"birth": "1"}, {"host": "elsewhere"}):
        note.write_bytes(orjson.dumps({**living, **ended}))
        checkpoints.claim(tmp_path)
        assert orjson.loads(note.read_bytes()) == said
