"""Write a job's Kubernetes manifest: an Indexed Job with a headless Service, a JobSet, or Kubeflow's TFJob.

The YAML is only printed; apply it with ``kubectl apply -f``. Each pod runs ``tfmuster worker``, which gets
its task from :mod:`~tfmuster.cluster.resolvers.kubernetes` or from the TF_CONFIG of Kubeflow's operator.

Parameter servers have a separate Job, because all pods of a Job have the same resources, and parameter
servers need no GPU.
"""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml

from ...cluster.resolvers.kubernetes import JOB_SET, job_name
from ...environment import (
    BASE_PORT_VARIABLE,
    CHECKPOINT_DIR_VARIABLE,
    GRACE_VARIABLE,
    KUBERNETES_KIND_VARIABLE,
    KUBERNETES_NAME_VARIABLE,
    KUBERNETES_PS_VARIABLE,
    KUBERNETES_ROLE_VARIABLE,
    KUBERNETES_WORKERS_VARIABLE,
    SEED_VARIABLE,
    START_TIMEOUT_VARIABLE,
    TOKEN_VARIABLE,
)
from ...errors import EXIT_USAGE, LaunchError
from ...system.gpus import NO_GPU, VISIBLE
from ...words import Code, Words
from .pod_job import PodJob, refused

Object = dict[str, Any]

#: How much longer than the workers Kubernetes waits before it kills a pod, in seconds.
_MORE_SECONDS = 10


def indexed_job(job: PodJob) -> list[Object]:
    """Make a headless Service, an Indexed Job, another one for parameter servers, and a network policy."""
    service = {
        "clusterIP": "None",
        "selector": job.labels,
        # A pod becomes ready only together with the others, so it must find them before.
        "publishNotReadyAddresses": True,
        "ports": [{"name": "tensorflow", "port": job.port}],
    }
    objects = [_object(job, "v1", "Service", spec=service)]
    # A single worker can't rejoin in TensorFlow: when one fails, the others end, too.
    failures = job.max_restarts * sum(job.roles.values())
    for role in job.roles:
        spec = _indexed(job, role, failures=failures)
        spec["template"]["spec"]["subdomain"] = job.name
        objects.append(_object(job, "batch/v1", "Job", name=job_name(str(job.name), role), spec=spec))
    return objects + _policies(job)


def job_set(job: PodJob) -> list[Object]:
    """Make a JobSet, whose controller makes the Jobs and the Service, and a network policy.

    The controller starts all pods again when a Job fails, and ends the parameter servers after the workers.
    """
    jobs = [
        {
            "name": role,
            "replicas": 1,
            "template": {"spec": _indexed(job, role, failures=0, kind=JOB_SET)},
        }
        for role in job.roles
    ]
    failure: Object = {"maxRestarts": job.max_restarts}
    if job.checkpoint_volume is not None:
        # What a restart can't mend.
        failure["rules"] = [
            {"name": "usage", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
        ]
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": job.name, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["worker"]},
        "failurePolicy": failure,
        "replicatedJobs": jobs,
        **({} if job.ttl is None else {"ttlSecondsAfterFinished": job.ttl}),
    }
    return [_object(job, "jobset.x-k8s.io/v1alpha2", "JobSet", spec=spec), *_policies(job)]


def _indexed(job: PodJob, role: str, *, failures: int, kind: str = "") -> Object:
    """Make the specification of the Job with the pods of one role."""
    size = job.roles[role]
    _check_host(f"{job_name(str(job.name), role, kind)}-{size - 1}")
    place = {
        KUBERNETES_NAME_VARIABLE: job.name,
        **({KUBERNETES_KIND_VARIABLE: kind} if kind else {}),
        KUBERNETES_ROLE_VARIABLE: role,
        KUBERNETES_WORKERS_VARIABLE: str(job.workers),
        KUBERNETES_PS_VARIABLE: str(job.ps),
        BASE_PORT_VARIABLE: str(job.port),
    }
    template = _pod(job, role, "worker", place)
    template["spec"] = {"restartPolicy": "Never", **template["spec"]}
    return {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        "backoffLimit": failures,
        # A JobSet is removed as a whole.
        **_times(job, ttl=kind != JOB_SET),
        **({} if job.checkpoint_volume is None else {"podFailurePolicy": _replacing_evicted()}),
        "template": template,
    }


def tf_job(job: PodJob) -> list[Object]:
    """Make a TFJob, whose operator makes the Services and TF_CONFIG, and a network policy.

    Raises LaunchError if there is only one task, for which the operator makes no TF_CONFIG.
    """
    if job.checkpoint_volume is not None:
        raise LaunchError(
            "Kubeflow's operator replaces pods by rules of its own.",
            found="a checkpoint volume",
            fix=Words(
                "Leave --kind tfjob out; or mount a --volume, and pass its path to {}().",
                Code("checkpoint_callback", "callback_checkpoint"),
            ),
            reason="kind",
        )
    if job.workers + job.ps < 2:
        raise LaunchError(
            "Kubeflow's operator needs at least two tasks to make a cluster.",
            found="1 worker",
            fix="Start more workers (-n 2), or leave --kind tfjob out.",
            reason="kind",
        )
    kinds = {"worker": "Worker", "ps": "PS"}
    replicas = {}
    for role, size in job.roles.items():
        _check_host(f"{job.name}-{role}-{size - 1}")
        # The operator requires these names of the container and its port.
        template = _pod(job, role, "tensorflow", {}, port_name="tfjob-port")
        replicas[kinds[role]] = {"replicas": size, "restartPolicy": "Never", "template": template}
    spec = {
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, **_times(job)},
        "successPolicy": "AllWorkers",
        "tfReplicaSpecs": replicas,
    }
    return [_object(job, "kubeflow.org/v1", "TFJob", spec=spec), *_policies(job)]


def to_yaml(objects: Sequence[Object]) -> str:
    """Write YAML documents with every text value in double quotes, in ASCII and on one line."""
    return yaml.dump_all(
        objects, Dumper=_Quoting, explicit_start=True, sort_keys=False, width=sys.maxsize, allow_unicode=False
    )


class _Quoting(yaml.SafeDumper):
    """Quotes every text, because YAML readers differ in what they take for a number, a date or "no"."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_mapping(self, *args: Any, **more: Any) -> yaml.MappingNode:
        node = super().represent_mapping(*args, **more)
        # Keys need no quotes, because all are fixed names.
        for key, _ in node.value:
            key.style = None
        return node


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def _object(job: PodJob, version: str, kind: str, *, spec: Object, name: str | None = None) -> Object:
    metadata = {"name": name or job.name, "labels": job.labels}
    if job.namespace is not None:
        metadata["namespace"] = job.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(
    job: PodJob, role: str, container: str, place: Mapping[str, object], *, port_name: str = "tensorflow"
) -> Object:
    """Make the pod template of one role. `place` has the variables that tell a pod its task."""
    variables = {
        START_TIMEOUT_VARIABLE: f"{job.start_timeout:g}",
        SEED_VARIABLE: str(job.seed),
        GRACE_VARIABLE: f"{job.grace:g}",
        **job.env,
    }
    if job.checkpoint_volume is not None:
        variables[CHECKPOINT_DIR_VARIABLE] = str(PurePosixPath(job.checkpoint_volume[1], str(job.name)))
    if role == "ps":
        # If all pods of a node can use its GPUs, TensorFlow would take them.
        variables.setdefault(VISIBLE, NO_GPU)
    env: list[Object] = [{"name": name, "value": value} for name, value in place.items()]
    env += [{"name": name, "value": literal(value)} for name, value in variables.items()]
    if job.token_secret is not None:
        secret = {"secretKeyRef": {"name": job.token_secret, "key": "token"}}
        env.append({"name": TOKEN_VARIABLE, "valueFrom": secret})
    one: Object = {
        "name": container,
        "image": job.image,
        "command": ["tfmuster", "worker", "--", *(literal(word) for word in job.command)],
        "env": env,
        "ports": [{"name": port_name, "containerPort": job.port}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # Without a limit, what other pods leave idle is used; memory can't be taken back.
        "resources": {
            "requests": {"cpu": job.cpu, "memory": job.memory},
            "limits": {"memory": job.memory},
        },
    }
    if job.gpus_per_worker and role == "worker":
        one["resources"]["limits"]["nvidia.com/gpu"] = job.gpus_per_worker
    # A training does not need the Kubernetes API.
    spec: Object = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": math.ceil(job.grace) + _MORE_SECONDS,
        "securityContext": {
            "runAsNonRoot": job.run_as > 0,
            "runAsUser": job.run_as,
            "runAsGroup": job.run_as,
            "fsGroup": job.run_as,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [one],
    }
    if job.node_selector:
        spec["nodeSelector"] = dict(job.node_selector)
    if job.tolerations:
        spec["tolerations"] = [_toleration(text) for text in job.tolerations]
    if job.pull_secret is not None:
        spec["imagePullSecrets"] = [{"name": job.pull_secret}]
    if job.mounts:
        one["volumeMounts"] = [
            {"name": f"volume-{i}", "mountPath": path} for i, (_, path) in enumerate(job.mounts)
        ]
        spec["volumes"] = [
            {"name": f"volume-{i}", "persistentVolumeClaim": {"claimName": claim}}
            for i, (claim, _) in enumerate(job.mounts)
        ]
    return {"metadata": {"labels": job.labels}, "spec": spec}


def _toleration(text: str) -> Object:
    """Return the toleration of ``KEY[=VALUE][:EFFECT]``. Without a value, any is tolerated."""
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    operator = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return {"key": key, **operator, **({"effect": effect} if effect else {})}


def _times(job: PodJob, *, ttl: bool = True) -> Object:
    """Return how long a job may run and, with `ttl`, when it is removed."""
    times = {"activeDeadlineSeconds": job.deadline, "ttlSecondsAfterFinished": job.ttl if ttl else None}
    return {name: seconds for name, seconds in times.items() if seconds is not None}


def _replacing_evicted() -> Object:
    """Replace evicted pods, and those that have ended with them, without counting them as failures."""
    codes = {"containerName": "worker", "operator": "In"}
    return {
        "rules": [
            # What a restart can't mend.
            {"action": "FailJob", "onExitCodes": {**codes, "values": [EXIT_USAGE]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            # All workers write a checkpoint and exit when one of them gets SIGTERM.
            {"action": "Ignore", "onExitCodes": {**codes, "values": [128 + signal.SIGTERM]}},
        ]
    }


def _policies(job: PodJob) -> list[Object]:
    """Allow traffic only between the job's pods, on all ports, because NCCL uses any port."""
    if not job.network_policy:
        return []
    pods = {"matchLabels": job.labels}
    spec = {
        "podSelector": pods,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": pods}]}],
    }
    return [_object(job, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)]


def literal(text: str) -> str:
    """Escape a text, because Kubernetes replaces ``$(NAME)`` in commands and variables."""
    return text.replace("$", "$$")


def _check_host(host: str) -> None:
    if len(host) > 63:
        raise refused("name", "A pod's name (job name and index) must have at most 63 characters.", host)
