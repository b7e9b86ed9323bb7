"""The TF_CONFIG text: made, read back, put in force."""

from __future__ import annotations

import pytest

from tfmuster import Cluster, current_task, parse_tf_config, tf_config_json
from tfmuster.cluster.tf_config import tf_config_texts
from tfmuster.errors import ClusterError, TfmusterWarning


def test_the_text() -> None:
    cluster = Cluster(ps=["d:4"], worker=["b:2", "[::1]:3"][:1], chief=["a:1"])
    assert tf_config_json(cluster.task("ps", 0)) == (
        '{"cluster":{"chief":["a:1"],"worker":["b:2"],"ps":["d:4"]},"task":{"type":"ps","index":0}}'
    )
    assert tf_config_json(cluster.task("chief", 0), pretty=True) == (
        '{\n  "cluster": {\n    "chief": [\n      "a:1"\n    ],\n    "worker": [\n      "b:2"\n    ],\n'
        '    "ps": [\n      "d:4"\n    ]\n  },\n  "task": {\n    "type": "chief",\n    "index": 0\n  }\n}'
    )


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


@pytest.mark.parametrize("text", [None, "", "  ", "{}", " {} \n"])
def test_no_cluster_is_no_task(text: str | None) -> None:
    assert current_task({} if text is None else {"TF_CONFIG": text}) is None


def test_a_bad_tf_config_is_an_error() -> None:
    with pytest.raises(ClusterError):
        current_task({"TF_CONFIG": '{"cluster":{}}'})
