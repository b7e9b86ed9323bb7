"""TensorFlow reads a TF_CONFIG as tfmuster does."""

from __future__ import annotations

import pytest

from tfmuster import Cluster, tf_config_json


def test_tensorflow_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tf = pytest.importorskip("tensorflow")
    cluster = Cluster(chief=["a:1"], worker=["b:1", "[2001:db8::1]:1"], ps=["10.0.0.1:1"], evaluator=["e:1"])
    for task in cluster.tasks():
        monkeypatch.setenv("TF_CONFIG", tf_config_json(task))
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        assert resolver.cluster_spec().as_dict() == cluster.to_dict()
        assert (resolver.task_type, resolver.task_id) == (task.type, task.index)
        assert tf.train.ClusterSpec(cluster.to_dict()).task_address(task.type, task.index) == task.address
