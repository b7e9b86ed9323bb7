"""One checkpoint as one file, whole or not there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import orjson
import psutil
import pytest

from tfmuster.errors import CheckpointError, TfmusterWarning
from tfmuster.system.processes import birth
from tfmuster.training import checkpoint_files as checkpoints

VALUES = [np.arange(5.0), np.array(3)]


def test_newest_that_is_whole(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path) is None
    for step in (1, 2, 3):
        checkpoints.write(tmp_path, step, {"epoch": step, "step": 0}, VALUES)
    content = checkpoints.newest(tmp_path)
    assert content is not None
    position, values = checkpoints.unpack(content)
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
    assert checkpoints.unpack(found)[0] == {"epoch": 1}


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    for step in range(5):
        checkpoints.write(tmp_path, step, {}, VALUES)
    checkpoints.remove_old(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n:012d}.checkpoint" for n in (3, 4)]


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
    assert checkpoints.newest_step(tmp_path) == 3
    with pytest.warns(TfmusterWarning) as warned:
        found = checkpoints.newest(tmp_path, ("epoch", "step"))
    texts = sorted(str(each.message).partition(f"{tmp_path}/")[2] for each in warned)
    assert texts == [
        "000000000002.checkpoint is skipped: it lacks step",
        "000000000003.checkpoint is skipped: it has no archive of arrays",
        "abc.checkpoint is skipped: its name must be a number of steps",
    ]
    assert found is not None
    assert checkpoints.unpack(found)[0] == {"epoch": 1, "step": 0}
    checkpoints.remove_old(tmp_path, 1)
    assert (tmp_path / "abc.checkpoint").exists()


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
