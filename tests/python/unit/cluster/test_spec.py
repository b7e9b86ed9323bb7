"""Cluster and Task: values that are right or don't exist."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from tfmuster import Cluster, Task
from tfmuster.errors import ClusterError, TfmusterWarning

FULL = {"ps": ["d:4", "e:5"], "worker": ["b:2", "c:3"], "evaluator": ["f:6"], "chief": ["a:1"]}


def test_jobs_have_one_order_and_no_empty_ones() -> None:
    assert list(Cluster(**FULL).jobs) == ["chief", "worker", "ps", "evaluator"]
    assert Cluster(worker=["a:1"], ps=[]).jobs == {"worker": ("a:1",)}
    assert Cluster(worker=["a:1"]).to_dict() == {"worker": ["a:1"]}
    assert len(Cluster(**FULL)) == 6


@pytest.mark.parametrize(
    "worker", [["a:1", "b:2"], ("a:1", "b:2"), (x for x in ("a:1", "b:2")), {"a:1": 0, "b:2": 0}.keys()]
)
def test_any_ordered_iterable_of_addresses_will_do(worker: Any) -> None:
    assert Cluster(worker=worker).worker == ("a:1", "b:2")


@pytest.mark.parametrize("worker", [{"a:1"}, frozenset(["a:1"]), {0: "a:1"}, b"a:1", 1])
def test_what_has_no_order_will_not(worker: Any) -> None:
    with pytest.raises(ClusterError) as raised:
        Cluster(worker=worker)
    assert [f["code"] for f in raised.value.fields["findings"]] == ["job-not-list"]


def test_a_lone_address_is_repaired_with_a_warning_that_points_here() -> None:
    with pytest.warns(TfmusterWarning, match="list of one") as caught:
        assert Cluster(worker="a:1").worker == ("a:1",)  # type: ignore[arg-type]
    assert caught[0].filename == __file__
    with pytest.warns(TfmusterWarning) as caught:
        Cluster.from_dict({"worker": "a:1"})
    assert caught[0].filename == __file__
    with pytest.warns(TfmusterWarning) as caught:
        Cluster(worker=["a:1"]).task("worker", "0")  # type: ignore[arg-type]
    assert caught[0].filename == __file__


def test_frozen_comparable_hashable_copyable() -> None:
    cluster = Cluster(**FULL)
    assert cluster == Cluster(**{job: tuple(addresses) for job, addresses in FULL.items()})
    assert cluster != Cluster(worker=["a:1"])
    assert len({cluster, Cluster(**FULL)}) == 1
    assert copy.deepcopy(cluster) == cluster == pickle.loads(pickle.dumps(cluster))
    with pytest.raises(dataclasses.FrozenInstanceError):
        cluster.worker = ()  # type: ignore[misc]
    task = cluster.task("worker", 1)
    assert task == Task("worker", 1, cluster)
    assert task == pickle.loads(pickle.dumps(task))
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.index = 0  # type: ignore[misc]
    assert eval(repr(cluster), {"Cluster": Cluster}) == cluster


def test_the_digest_is_a_constant_of_the_description() -> None:
    assert Cluster(**FULL).digest == Cluster(**dict(reversed(FULL.items()))).digest
    # A fixed number: the same in every version, on every machine, or the rendezvous would refuse everyone.
    assert (
        Cluster(worker=["a:1", "b:2"]).digest
        == "464e966b47dc79b53d7cf0ccd3d332c8a7b5b8277ceaa84ced0c9d95421214f4"
    )
    assert Cluster(worker=["b:2", "a:1"]).digest != Cluster(worker=["a:1", "b:2"]).digest
    assert Cluster(chief=["a:1"], worker=["b:2"]).digest != Cluster(worker=["a:1", "b:2"]).digest


def test_tasks() -> None:
    cluster = Cluster(**FULL)
    assert [task.name for task in cluster.tasks()] == [
        "chief 0",
        "worker 0",
        "worker 1",
        "ps 0",
        "ps 1",
        "evaluator 0",
    ]
    assert [task.is_chief for task in cluster.tasks()] == [True] + [False] * 5
    assert cluster.chief_task().address == "a:1"
    assert cluster.task("ps", 1).address == "e:5"
    assert cluster.task("ps", 1).to_dict() == {"type": "ps", "index": 1}
    assert str(cluster.task("ps", 1)) == "ps 1 at e:5"


def test_without_a_chief_worker_0_leads() -> None:
    cluster = Cluster(worker=["a:1", "b:1"], ps=["c:1"])
    assert cluster.chief_task() == cluster.task("worker", 0)
    assert [task.is_chief for task in cluster.tasks()] == [True, False, False]


@pytest.mark.parametrize(
    ("type", "index", "code"),
    [
        ("chief", 0, "type-not-in-cluster"),
        ("worker", 1, "index-too-large"),
        ("worker", -1, "index-negative"),
        ("worker", True, "index-not-integer"),
        ("worker", 0.0, "index-not-integer"),
        ("worker", None, "index-missing"),
        (None, 0, "type-missing"),
        (["worker"], 0, "type-not-in-cluster"),
    ],
)
def test_a_task_that_is_not_there(type: Any, index: Any, code: str) -> None:
    for make in (Cluster(worker=["a:1"]).task, lambda t, i: Task(t, i, Cluster(worker=["a:1"]))):
        with pytest.raises(ClusterError) as raised:
            make(type, index)
        assert [f["code"] for f in raised.value.fields["findings"]] == [code]


def test_messages() -> None:
    with pytest.raises(ClusterError) as raised:
        Cluster(worker=["a"])
    assert str(raised.value) == (
        "The cluster description can't be used: an address has no port.\n"
        "  found: cluster.worker[0]: a\n"
        "  to do: add one, such as :2222"
    )
    with pytest.raises(ClusterError) as raised:
        Cluster(worker=["a", "b:0"])
    assert str(raised.value) == (
        "The cluster description can't be used: 2 errors.\n"
        "  cluster.worker[0]: a: an address has no port\n"
        "    to do: add one, such as :2222\n"
        "  cluster.worker[1]: b:0: port 0 can't be connected to\n"
        "    to do: use a port from 1 to 65535"
    )
    with pytest.raises(ClusterError) as raised:
        Cluster(worker=["a"] * 30)
    assert str(raised.value).endswith("\n  and 10 more")
    assert len(raised.value.fields["findings"]) == 30


def test_an_empty_cluster_is_none() -> None:
    with pytest.raises(ClusterError) as raised:
        Cluster()
    assert [f["code"] for f in raised.value.fields["findings"]] == ["empty-cluster"]


def test_printing_a_large_cluster_stays_short() -> None:
    text = str(Cluster(worker=[f"node-{i}:1" for i in range(1000)]))
    assert text.splitlines()[0] == "cluster of 1000 tasks"
    assert text.splitlines()[-1] == "  and 982 more, to worker 999  node-999:1"
    assert len(text.splitlines()) == 20


FILES = {
    "jobs.json": '{"worker": ["a:1", "[::1]:2"]}',
    "cluster.json": '{"cluster": {"worker": ["a:1", "b:2"]}}',
    "tf_config.json": '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}',
    "jobs.yaml": "# two\nworker:\n  - a:1\n  - 'b:2'\n",
    "CLUSTER.YML": "cluster:\n  worker: [a:1, b:2]\ntask: {type: worker, index: 0}\n",
    "no-suffix": "worker: ['a:1', \"b:2\"]",
    "no-suffix-json": ' {"worker": ["a:1", "b:2"]}',
    "json.yaml": '{"worker": ["a:1", "b:2"]}',
}


@pytest.mark.parametrize("name", [name for name in FILES if name != "jobs.json"])
def test_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    for path in (tmp_path / name, str(tmp_path / name)):
        assert Cluster.from_file(path) == Cluster(worker=["a:1", "b:2"])


@pytest.mark.parametrize(
    "scalar", ["a:1", "node1.example.org:2222", "10.0.0.1:80", "'[2001:db8::1]:2'", '"a:1"']
)
def test_yaml_scalars_are_what_pyyaml_says(scalar: str, tmp_path: Path) -> None:
    import yaml

    text = f"worker:\n- {scalar}\n"
    (tmp_path / "c.yaml").write_text(text)
    assert Cluster.from_file(tmp_path / "c.yaml").to_dict() == yaml.safe_load(text)


def test_wrong_files(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("worker: [a:1]")
    (tmp_path / "c.yaml").write_bytes("worker: [ä:1]".encode("latin-1"))
    for path, code in (
        (tmp_path / "c.json", "not-json"),
        (tmp_path / "c.yaml", "not-utf8"),
        (tmp_path, "file-unreadable"),
    ):
        with pytest.raises(ClusterError) as raised:
            Cluster.from_file(path)
        assert [f["code"] for f in raised.value.fields["findings"]] == [code]


def test_dicts() -> None:
    cluster = Cluster(worker=["a:1", "b:2"])
    assert Cluster.from_dict({"cluster": {"worker": ["a:1", "b:2"]}}) == cluster
    assert Cluster.from_dict(cluster.to_dict()) == cluster
