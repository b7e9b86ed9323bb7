"""A training that is interrupted ends as if it had not been, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jobs import run_job, succeeded
from tfmuster.errors import CheckpointError, TfmusterWarning
from tfmuster.training import checkpoint_files as checkpoints
from tfmuster.training.checkpoints import checkpoint_callback


def final(folder: Path, worker: int = 0) -> dict[str, np.ndarray]:
    with np.load(folder / f"result-{worker}.npz") as file:
        return dict(file)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("workers", "kind", "every", "die_at"),
    [
        (0, "numpy", "epoch", [15, 25]),
        (0, "numpy", 4, [3, 15, 27]),
        (0, "dataset", 3, [14, 16]),
        (0, "repeated", 4, [13, 30]),
        (0, "executions", 6, [13]),
        (2, "numpy", 4, [15, 27]),
        (2, "dataset", 3, [14]),
        (2, "repeated", "epoch", [13]),
    ],
)
def test_bitwise_equal(tmp_path: Path, workers: int, kind: str, every: int | str, die_at: list[int]) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    succeeded(run_job("resuming.py", workers, undisturbed, kind, every))
    succeeded(run_job("resuming.py", workers, disturbed, kind, every, *die_at))
    expected = final(undisturbed)
    assert expected.keys() >= {"loss", "accuracy", "arr_0"}
    for worker in range(max(workers, 1)):
        for name, value in final(disturbed, worker).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"worker {worker}: {name}")
    assert len(list(disturbed.glob("*.checkpoint"))) == 2
    assert not list(disturbed.glob("*.part"))


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
    with pytest.warns(TfmusterWarning, match=r"000000000002\.checkpoint is passed over"):
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


@pytest.mark.parametrize("every", [0, -1, True, 1.5, "step"])
def test_every(tmp_path: Path, every: object) -> None:
    with pytest.raises(CheckpointError, match="every is") as caught:
        checkpoint_callback(tmp_path, every=every)  # type: ignore[arg-type]
    assert caught.value.fields["reason"] == "every"


def test_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFMUSTER_RUN_DIR", raising=False)
    with pytest.raises(CheckpointError, match="Outside of a job, checkpoints need a folder"):
        checkpoint_callback()


def test_the_import_that_it_needs_is_quiet(tmp_path: Path) -> None:
    code = f"import tfmuster; tfmuster.checkpoint_callback({str(tmp_path)!r})"
    environ = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environ
    )
    assert done.stdout == done.stderr == ""
