"""Where a check gets its cluster from, and how its report reads."""

from __future__ import annotations

from pathlib import Path

from tfmuster import Cluster, check_cluster


def test_a_file_needs_no_task_and_arguments_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"cluster": {"worker": ["a:1", "b:1"]}}')
    assert check_cluster(path).findings == ()
    assert check_cluster(str(path), type="worker", index=1).task == Cluster(worker=["a:1", "b:1"]).task(
        "worker", 1
    )
    path.write_text('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "ps", "index": 7}}')
    assert [f.code for f in check_cluster(path).findings] == ["type-not-in-cluster"]
    assert check_cluster(path, type="worker", index=0).findings == ()


def test_the_report_reads_well() -> None:
    assert str(check_cluster(worker=["a:1", "b"], type="worker", index="1")) == (
        "error port-missing\n"
        "  cluster.worker[1]: b: an address has no port\n"
        "  to do: add one, such as :2222\n"
        "warning index-as-text\n"
        "  task.index: 1: the index was given as text; it is used as a number\n"
        "  to do: write it without quotation marks\n"
        "1 error, 1 warning"
    )
    assert str(check_cluster(worker=["a:1"], type="worker", index=0)) == (
        "cluster of 1 task\n  worker 0  a:1\nthis is worker 0 at a:1\nno findings"
    )
