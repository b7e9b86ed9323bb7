"""After the rendezvous TensorFlow really binds the ports, while the control line stays open."""

from __future__ import annotations

import pytest

from support.rendezvous_job import Job, local_cluster
from tfmuster.cluster.tf_config import tf_config_json

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_SUM = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
mine = strategy.run(lambda: tf.constant(float(task.index + 1)))
say(event="sum", value=float(strategy.reduce("SUM", mine, axis=None)), active=control.active)
control.done()
os._exit(0)
"""


def test_tensorflow_takes_over_the_ports(job: Job):
    cluster = local_cluster(2)
    tasks = [
        job.start(
            cluster, task.type, task.index, timeout=60, then=_SUM, env={"TF_CONFIG": tf_config_json(task)}
        )
        for task in cluster.tasks()
    ]
    for task in tasks:
        result = task.result(200)
        assert result.code == 0, result.stderr
        assert (result.last["value"], result.last["active"]) == (3.0, True)
