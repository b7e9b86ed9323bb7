"""Which GPUs each worker sees, with planted programs in place of nvidia-smi."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.launching import nothing_left, only_run, tfmuster, write
from tfmuster.errors import LaunchError
from tfmuster.launcher import launch
from tfmuster.options.table import Control
from tfmuster.system import gpus
from tfmuster.system.gpus import assign_gpus, visible_gpus

FOUR = ["worker"] * 4
SHOW = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES', 'unset'))"


def plant(folder: Path, *lines: str, exit_code: int = 0) -> str:
    """A PATH whose nvidia-smi prints these lines."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    body = [f"echo '{line}'" for line in lines]
    program.write_text(
        "\n".join(["#!/bin/sh", 'test "$*" = -L || exit 9', *body, f"exit {exit_code}"]) + "\n"
    )
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def gpu_lines(count: int) -> list[str]:
    return [f"GPU {number}: NVIDIA A100-SXM4-40GB (UUID: GPU-{number:08x}-aaaa)" for number in range(count)]


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    yield
    nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "per_worker", "count", "shares"),
    [
        (FOUR, None, 4, ["0", "1", "2", "3"]),
        (FOUR, None, 8, None),
        (FOUR, None, 3, None),
        (FOUR, None, 0, None),
        (FOUR, 2, 8, ["0,1", "2,3", "4,5", "6,7"]),
        (FOUR, 1, 8, ["0", "1", "2", "3"]),
        (FOUR, 0, 8, ["-1"] * 4),
        (FOUR, 0, 0, ["-1"] * 4),
        (["chief", "worker", "ps", "evaluator"], None, 2, ["0", "1", "-1", "-1"]),
        (["ps"], None, 0, None),
        (["ps"], 2, 0, ["-1"]),
    ],
)
def test_each_worker_has_gpus_of_its_own(
    tmp_path: Path, kinds: list[str], per_worker: int | None, count: int, shares: list[str] | None
) -> None:
    environ = {"PATH": plant(tmp_path, *gpu_lines(count))}
    expected = [{}] * len(kinds) if shares is None else [{gpus.VISIBLE: share} for share in shares]
    assert assign_gpus(kinds, per_worker, environ) == expected


def test_gpus_that_were_chosen_already_are_shared_out(tmp_path: Path) -> None:
    environ = {"PATH": plant(tmp_path, *gpu_lines(8)), gpus.VISIBLE: "5, GPU-0a,7"}
    assert visible_gpus(environ) == ["5", "GPU-0a", "7"]
    assert assign_gpus(["worker"] * 3, None, environ)[1] == {gpus.VISIBLE: "GPU-0a"}
    assert visible_gpus({**environ, gpus.VISIBLE: ""}) == []
    assert visible_gpus({**environ, gpus.VISIBLE: "-1"}) == []
    assert visible_gpus({**environ, gpus.VISIBLE: "3,-1,4"}) == ["3"]


def test_slices_are_not_counted_as_gpus(tmp_path: Path) -> None:
    path = plant(tmp_path, *gpu_lines(1), "  MIG 1g.5gb     Device  0: (UUID: MIG-1)")
    assert visible_gpus({"PATH": path}) == ["0"]


def test_no_driver_no_answer_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert visible_gpus({"PATH": str(tmp_path)}) == []
    assert visible_gpus({"PATH": plant(tmp_path, "Failed to initialize NVML", exit_code=9)}) == []
    monkeypatch.setattr(gpus, "_ASK_SECONDS", 0.2)
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 30\n")
    begun = time.monotonic()
    assert visible_gpus({"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}) == []
    assert in_time(begun, 5)


def test_too_few_gpus_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "train.py", SHOW)
    monkeypatch.setenv("PATH", plant(tmp_path, *gpu_lines(6)))
    with pytest.raises(LaunchError) as caught:
        launch("train.py", workers=4, control=Control(gpus_per_worker=2), quiet=True)
    assert "6 GPUs for 4 workers with 2 each" in str(caught.value)
    assert "Start at most 3 workers" in str(caught.value)
    with pytest.raises(LaunchError, match="`gpus_per_worker` must be a whole number of at least 0"):
        Control(gpus_per_worker=-1)
    with pytest.raises(LaunchError, match="Give each fewer GPUs; `nvidia-smi -L`"):
        launch("train.py", workers=1, control=Control(gpus_per_worker=7))
    assert not (tmp_path / "runs").exists()


def test_launch_shows_each_worker_its_own(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SHOW)
    path = plant(tmp_path, *gpu_lines(2))
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path, PATH=path)
    assert sorted(done.stdout.splitlines()) == [
        "worker 0 | 0",
        "worker 1 | 1",
    ]
    done = tfmuster("launch", "-n", 1, "--gpus-per-worker", 2, "train.py", cwd=tmp_path, PATH=path)
    assert done.stdout == "worker 0 | 0,1\n"
    done = tfmuster("launch", "-n", 1, "--gpus-per-worker", 3, "train.py", cwd=tmp_path, PATH=path)
    assert done.returncode == 2 and "2 GPUs for 1 worker with 3 each" in done.stderr


def test_a_launch_in_the_background_shares_them_out_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "train.py", SHOW)
    monkeypatch.setenv("PATH", plant(tmp_path, *gpu_lines(4)))
    run = launch("train.py", workers=2, control=Control(gpus_per_worker=2), wait=False)
    assert run.wait(20)["state"] == "done"
    assert (only_run(tmp_path) / "logs" / "worker-1.log").read_text() == "2,3\n"
