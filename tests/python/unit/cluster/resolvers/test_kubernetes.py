"""A pod's place in the cluster, from the variables of its manifest."""

from __future__ import annotations

import json

import pytest

from tfmuster.cluster.resolvers import engine_here, gpus_here, resolve_task
from tfmuster.errors import LaunchError

POD = {
    "JOB_COMPLETION_INDEX": "1",
    "TFMUSTER_KUBERNETES_NAME": "digits",
    "TFMUSTER_KUBERNETES_ROLE": "worker",
    "TFMUSTER_KUBERNETES_WORKERS": "2",
}


def test_a_worker_learns_its_place_from_its_index() -> None:
    task = resolve_task(POD)
    assert task is not None
    assert (task.name, task.address) == ("worker 1", "digits-1.digits:2222")
    assert task.cluster.to_dict() == {"worker": ["digits-0.digits:2222", "digits-1.digits:2222"]}
    assert (engine_here(POD), gpus_here(POD)) == ("Kubernetes", {})


def test_parameter_servers_are_pods_of_a_job_of_their_own() -> None:
    pod = {
        **POD,
        "JOB_COMPLETION_INDEX": "0",
        "TFMUSTER_KUBERNETES_ROLE": "ps",
        "TFMUSTER_KUBERNETES_PS": "1",
        "TFMUSTER_BASE_PORT": "3333",
    }
    task = resolve_task(pod)
    assert task is not None
    assert (task.name, task.address) == ("ps 0", "digits-ps-0.digits:3333")
    worker = resolve_task({**pod, "TFMUSTER_KUBERNETES_ROLE": "worker"})
    assert worker is not None
    assert worker.cluster == task.cluster


def test_the_tf_config_of_an_operator_counts_first() -> None:
    cluster = {"worker": ["digits-worker-0.lab.svc:2222", "digits-worker-1.lab.svc:2222"]}
    text = {"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"}
    task = resolve_task({**POD, "TF_CONFIG": json.dumps(text)})
    assert task is not None
    assert task.address == "digits-worker-0.lab.svc:2222"


def test_an_indexed_job_of_somebody_else_is_no_cluster() -> None:
    assert resolve_task({"JOB_COMPLETION_INDEX": "3"}) is None


def test_ten_thousand_pods_are_no_trouble() -> None:
    many = {**POD, "TFMUSTER_KUBERNETES_WORKERS": "10000", "JOB_COMPLETION_INDEX": "9999"}
    task = resolve_task(many)
    assert task is not None
    assert task.address == "digits-9999.digits:2222"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JOB_COMPLETION_INDEX", "2"),
        ("JOB_COMPLETION_INDEX", "-1"),
        ("JOB_COMPLETION_INDEX", ""),
        ("JOB_COMPLETION_INDEX", "²"),
        ("TFMUSTER_KUBERNETES_WORKERS", "0"),
        ("TFMUSTER_KUBERNETES_WORKERS", "999999"),
        ("TFMUSTER_KUBERNETES_ROLE", "chief"),
        ("TFMUSTER_KUBERNETES_ROLE", "ps"),
        ("TFMUSTER_KUBERNETES_NAME", ""),
        ("TFMUSTER_KUBERNETES_PS", "one"),
    ],
)
def test_variables_that_make_no_sense_are_named(variable: str, value: str) -> None:
    with pytest.raises(LaunchError) as caught:
        resolve_task({**POD, variable: value})
    assert caught.value.fields["reason"] == "kubernetes"
    assert f"{variable}={value!r}" in (caught.value.found or "")
