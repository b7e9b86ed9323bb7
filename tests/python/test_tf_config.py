"""The TF_CONFIG text: made, read back, put in force."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfmuster import Cluster, current_task, parse_tf_config, tf_config_json, use_tf_config
from tfmuster.cluster.tf_config import LONGEST_IN_ENVIRONMENT, tf_config_texts
from tfmuster.errors import ClusterError, TfmusterWarning

HOSTS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z][a-z0-9]{0,4})?", fullmatch=True)
ADDRESSES = st.lists(
    st.builds("{}:{}".format, HOSTS, st.integers(1, 65535)), min_size=1, max_size=6, unique_by=str.lower
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Clusters of up to six tasks, shared out among the jobs."""
    addresses = draw(ADDRESSES.filter(lambda some: not any("localhost" in each for each in some)))
    jobs: dict[str, list[str]] = {"worker": [addresses[0]]}
    for address in addresses[1:]:
        jobs.setdefault(draw(st.sampled_from(["worker", "ps", "evaluator"])), []).append(address)
    return Cluster(**jobs)


def test_the_text() -> None:
    cluster = Cluster(ps=["d:4"], worker=["b:2", "[::1]:3"][:1], chief=["a:1"])
    assert tf_config_json(cluster.task("ps", 0)) == (
        '{"cluster":{"chief":["a:1"],"worker":["b:2"],"ps":["d:4"]},"task":{"type":"ps","index":0}}'
    )
    assert tf_config_json(cluster.task("chief", 0), pretty=True) == (
        '{\n  "cluster": {\n    "chief": [\n      "a:1"\n    ],\n    "worker": [\n      "b:2"\n    ],\n'
        '    "ps": [\n      "d:4"\n    ]\n  },\n  "task": {\n    "type": "chief",\n    "index": 0\n  }\n}'
    )


@given(clusters())
def test_every_task_is_read_back(cluster: Cluster) -> None:
    for pretty in (False, True):
        tasks = cluster.tasks()
        texts = list(tf_config_texts(tasks, pretty=pretty))
        assert texts == [tf_config_json(task, pretty=pretty) for task in tasks]
        for task, text in zip(tasks, texts, strict=True):
            document = {"cluster": cluster.to_dict(), "task": task.to_dict()}
            assert text == json.dumps(
                document, indent=2 if pretty else None, separators=None if pretty else (",", ":")
            )
            assert parse_tf_config(text) == task
            assert Cluster.from_tf_config(text).digest == cluster.digest


def test_texts_of_tasks_of_several_clusters() -> None:
    a, b = Cluster(worker=["a:1"]).task("worker", 0), Cluster(worker=["b:1"]).task("worker", 0)
    assert list(tf_config_texts([a, b, a])) == [tf_config_json(each) for each in (a, b, a)]


def test_what_users_get_wrong_is_repaired_with_a_warning() -> None:
    with pytest.warns(TfmusterWarning) as caught:
        task = parse_tf_config('{"cluster":{"worker":"a:1"},"task":{"type":"worker","index":"0"}}')
    assert task == Cluster(worker=["a:1"]).task("worker", 0)
    assert [str(each.message).split(":")[0] for each in caught] == ["cluster.worker", "task.index"]
    assert caught[0].filename == __file__


def test_errors_carry_every_finding() -> None:
    with pytest.raises(ClusterError) as raised:
        parse_tf_config('{"cluster":{"worker":["a"]},"task":{"type":"ps","index":"x"}}')
    codes = [finding["code"] for finding in raised.value.fields["findings"]]
    assert codes == ["port-missing", "type-not-in-cluster", "index-not-integer"]


def test_use_reaches_this_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    task = Cluster(worker=["a:1", "b:1"]).task("worker", 1)
    assert current_task() is None
    text = use_tf_config(task)
    assert os.environ["TF_CONFIG"] == text == tf_config_json(task)
    assert current_task() == task
    child = [sys.executable, "-c", "import os; print(os.environ['TF_CONFIG'])"]
    assert (
        subprocess.run(child, capture_output=True, text=True, timeout=60, check=True).stdout.strip() == text
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
def test_the_limit_of_the_environment_is_linux_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "x" * LONGEST_IN_ENVIRONMENT)
    subprocess.run(["true"], timeout=60, check=True)
    monkeypatch.setenv("TF_CONFIG", "x" * (LONGEST_IN_ENVIRONMENT + 1))
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true"], timeout=60, check=True)
    cluster = Cluster(worker=[f"node-{i}.example.org:2222" for i in range(6000)])
    with pytest.warns(TfmusterWarning, match="128 KiB"):
        use_tf_config(cluster.task("worker", 0))


@pytest.mark.parametrize("text", [None, "", "  ", "{}", " {} \n"])
def test_no_cluster_is_no_task(text: str | None) -> None:
    assert current_task({} if text is None else {"TF_CONFIG": text}) is None


def test_a_bad_tf_config_is_an_error() -> None:
    with pytest.raises(ClusterError):
        current_task({"TF_CONFIG": '{"cluster":{}}'})


@pytest.mark.tensorflow
def test_tensorflow_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tf = pytest.importorskip("tensorflow")
    cluster = Cluster(chief=["a:1"], worker=["b:1", "[2001:db8::1]:1"], ps=["10.0.0.1:1"], evaluator=["e:1"])
    for task in cluster.tasks():
        monkeypatch.setenv("TF_CONFIG", tf_config_json(task))
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        assert resolver.cluster_spec().as_dict() == cluster.to_dict()
        assert (resolver.task_type, resolver.task_id) == (task.type, task.index)
        assert tf.train.ClusterSpec(cluster.to_dict()).task_address(task.type, task.index) == task.address
