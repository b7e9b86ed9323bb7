"""More processes than a machine carries are refused, by its processor and by its free memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher import capacity
from tfmuster.launcher.job import Job
from tfmuster.launcher.supervise.worker_process import Placement
from tfmuster.system.limits import free_memory
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capacity, "usable_cores", lambda: 2)
    monkeypatch.setattr(capacity, "free_memory", lambda: 1600 << 20)
    (tmp_path / "keras.py").write_text("from keras import layers\n")
    (tmp_path / "plain.py").write_text("print('no frameworks')\n")
    (tmp_path / "train.R").write_text("library(tfmuster)\n")


@pytest.mark.parametrize(
    ("job", "found", "fix"),
    [
        (Job(["plain.py"], workers=8), None, ""),
        (Job(["plain.py"], workers=6, ps=1, chief=True), None, ""),
        (
            Job(["plain.py"], workers=7, ps=1, evaluator=True),
            "processes: 9, cores: 2, of which each carries 4",
            "Start at most 8 processes, or use other machines. To start all here, set --oversubscribe.",
        ),
        (Job(["keras.py"], workers=5), None, ""),
        (
            Job(["keras.py"], workers=6),
            "processes: 6, of 300 MB or more each; free memory: 1600 MB",
            "Start at most 5 processes, or use other machines. To start all here, set --oversubscribe.",
        ),
        (Job(["tfmuster", "train", "mnist"], workers=6), "processes: 6, of 300 MB", "Start at most 5"),
        (Job(["train.R"], workers=4), "processes: 4, of 490 MB", "Start at most 3"),
        (Job(["absent.py"], workers=8), None, ""),
    ],
)
def test_what_two_cores_carry(job: Job, found: str | None, fix: str) -> None:
    if found is None:
        capacity.check_capacity(job.command[0], len(job.kinds))
        return
    with pytest.raises(LaunchError) as refused, speaking("shell"):
        capacity.check_capacity(job.command[0], len(job.kinds))
    assert refused.value.fields["reason"] == "oversubscribed"
    assert (refused.value.found or "").startswith(found) and str(refused.value.fix).startswith(fix)


def test_many_processes_start_a_few_at_a_time_within_the_time_limit() -> None:
    def wait(count: int, **env: str) -> float:
        return capacity.seconds_to_wait([Placement("worker 0", True, ("true",), env)] * count)

    assert capacity.at_once(Placement("worker 0", True, ("true",), {})) == 4
    assert wait(4) == wait(5) == 0.5
    # Not more than a quarter of the limit in sum.
    assert wait(64) == 15 / 60
    assert wait(14, TFMUSTER_START_TIMEOUT="8") == 0.2
    # Each machine starts as many as it can.
    hosts = [
        Placement("worker 0", True, ("true",), {}, host=host, cores=cores)
        for host, cores in (("a", 1), ("b", 16))
        for _ in range(32)
    ]
    assert [capacity.at_once(hosts[number]) for number in (0, 32)] == [2, 32]
    assert capacity.seconds_to_wait(hosts) == 0.5 == 15 / 30


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_the_group_that_has_the_least(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/user/job\n")
    cgroups = tmp_path / "cgroups"
    everything = free_memory(tmp_path / "none", tmp_path / "none")
    group(cgroups / "user" / "job", memory__max="max", memory__current=5)
    assert free_memory(cgroups, own) == pytest.approx(everything, rel=0.2)
    group(cgroups / "user", memory__max=1000, memory__current=900, memory__stat="anon 800\ninactive_file 50")
    assert free_memory(cgroups, own) == 150
    # In a container, the path is that of the host, and the files are those of the root.
    own.write_text("0::/elsewhere\n")
    group(cgroups, memory__max=100, memory__current=130, memory__stat="inactive_file 0")
    assert free_memory(cgroups, own) == 0


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("5:devices:/\n4:memory:/job\n1:cpu:/job\n0::/\n")
    files = {"memory__limit_in_bytes": 2000, "memory__usage_in_bytes": 1500}
    group(tmp_path / "memory" / "job", **files, memory__stat="total_inactive_file 100")
    assert free_memory(tmp_path, own) == 600
