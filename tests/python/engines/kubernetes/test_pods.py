"""Pods as Kubernetes would run them: command and variables of the manifest, a network and a name for each.

Machines that are namespaces stand for the pods, a file of names for the headless Service.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from support.clock import in_time
from support.hosts import put
from support.launching import tfmuster, wait_until
from support.paths import PROGRAMS
from support.pod_jobs import container_of, in_the_pod
from support.pods import Pods
from support.r import NEEDS_R

pytestmark = pytest.mark.timeout(180)


def manifest(folder: Path, *arguments: object) -> list[dict[str, Any]]:
    done = tfmuster("manifest", "kubernetes", "--image", "me/digits", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def apply(pods: Pods, documents: Sequence[dict[str, Any]], secrets: Mapping[str, str] | None = None) -> None:
    """Start the pods of the Jobs among the documents, as Kubernetes and the controller of JobSets do."""
    jobs = [
        (each["metadata"]["name"], each["spec"]["template"]["spec"].get("subdomain"), each["spec"])
        for each in documents
        if each["kind"] == "Job"
    ]
    for each in (each for each in documents if each["kind"] == "JobSet"):
        subdomain = each["spec"]["network"]["subdomain"]
        for replicated in each["spec"]["replicatedJobs"]:
            name = f"{each['metadata']['name']}-{replicated['name']}-0"
            jobs.append((name, subdomain, replicated["template"]["spec"]))
    for job, subdomain, spec in jobs:
        template = spec["template"]
        container = container_of(template)
        variables = {}
        for each in container["env"]:
            secret = each.get("valueFrom", {}).get("secretKeyRef")
            text = (secrets or {})[secret["name"]] if secret else in_the_pod(each["value"], variables)
            variables[each["name"]] = text
        command = [in_the_pod(word, variables) for word in container["command"]]
        for index in range(spec["completions"]):
            name = f"{job}-{index}"
            given = {**variables, "HOSTNAME": name, "JOB_COMPLETION_INDEX": str(index)}
            pods.start(f"{name}.{subdomain}", command, given)


def good(ended: dict[str, tuple[int, str]]) -> dict[str, str]:
    assert all(code == 0 for code, _ in ended.values()), ended
    return {name: out for name, (_, out) in ended.items()}


def last_line(text: str) -> str:
    return [line for line in text.splitlines() if line.startswith("replicas")][-1]


def test_a_program_that_knows_of_nothing_trains_on_two_pods(pods: Pods, tmp_path: Path) -> None:
    draws = "import random\nprint('drawn', random.random())\n"
    put(pods.network, "unaware.py", draws + (PROGRAMS / "unaware.py").read_text())
    apply(pods, manifest(tmp_path, "-n", 2, "--name", "digits", "--seed", 5, "unaware.py"))
    # Names appear with the pods, one by one: a pod that asks too early must ask again.
    time.sleep(3)
    pods.tell_names()
    ended = good(pods.ends(120))
    assert "worker 0 at digits-0.digits:2222, by Kubernetes, with 1 other" in ended["digits-0.digits"]
    first, second = (last_line(text) for text in ended.values())
    assert first == second
    assert first.startswith("replicas 2 ")
    assert all(f"drawn {random.Random(5).random()}\n" in out for out in ended.values())


def test_parameter_servers_end_with_the_job(pods: Pods, tmp_path: Path) -> None:
    train = (
        "tfmuster",
        "train",
        "mnist",
        "--dataset",
        "synthetic",
        "--model",
        "softmax",
        "--updates",
        "async",
    )
    short = ("--epochs", 1, "--steps-per-epoch", 4)
    options = ("-n", 2, "--ps", 1, "--name", "digits", "--token-secret", "s")
    apply(pods, manifest(tmp_path, *options, "--", *train, *short), {"s": "a password of 24 letters"})
    pods.tell_names()
    ended = good(pods.ends(120))
    assert list(ended) == ["digits-0.digits", "digits-1.digits", "digits-ps-0.digits"]


def test_the_pods_of_a_job_set(pods: Pods, tmp_path: Path) -> None:
    put(pods.network, "unaware.py", (PROGRAMS / "unaware.py").read_text())
    apply(pods, manifest(tmp_path, "--kind", "jobset", "-n", 2, "--name", "digits", "unaware.py"))
    pods.tell_names()
    ended = good(pods.ends(120))
    host = "digits-worker-0-0.digits"
    assert f"worker 0 at {host}:2222, by Kubernetes, with 1 other" in ended[host]
    first, second = (last_line(text) for text in ended.values())
    assert first == second


@NEEDS_R
def test_an_r_script_in_the_pods_of_an_operator(pods: Pods, tmp_path: Path) -> None:
    put(pods.network, "unaware.R", (PROGRAMS / "unaware.R").read_text())
    document, _ = manifest(tmp_path, "--kind", "tfjob", "-n", 2, "unaware.R")
    command = container_of(document["spec"]["tfReplicaSpecs"]["Worker"]["template"])["command"]
    names = [f"unaware-worker-{index}.lab.svc" for index in range(2)]
    for index, name in enumerate(names):
        told = {
            "cluster": {"worker": [f"{each}:2222" for each in names]},
            "task": {"type": "worker", "index": index},
            "environment": "cloud",
        }
        pods.start(name, command, {"TF_CONFIG": json.dumps(told)})
    pods.tell_names()
    first, second = (last_line(text) for text in good(pods.ends(120)).values())
    assert first == second
    assert first.startswith("replicas 2 ")


def test_one_pod_that_fails_ends_the_others_with_its_cause(pods: Pods, tmp_path: Path) -> None:
    put(pods.network, "meet.py", (PROGRAMS / "meet.py").read_text())
    meet = (PROGRAMS / "meet.py").read_text().replace("time.sleep(float(sys.argv[2]))", "")
    fail = "if task.index == 2:\n    raise ValueError('no such digit')\ntime.sleep(60)\n"
    put(pods.network, "fail.py", meet + fail)
    apply(pods, manifest(tmp_path, "-n", 4, "--name", "digits", "fail.py", 30))
    pods.tell_names()
    ended = pods.ends(60)
    assert all(code == 1 for code, _ in ended.values()), ended
    for _, out in ended.values():
        assert "no such digit" in out


def test_a_pod_that_is_deleted_is_gone_at_once(pods: Pods, tmp_path: Path) -> None:
    put(pods.network, "meet.py", (PROGRAMS / "meet.py").read_text())
    apply(pods, manifest(tmp_path, "-n", 2, "--name", "digits", "meet.py", 30, 60))
    pods.tell_names()
    for pod in pods.running.values():
        assert pod.stdout is not None
        assert any(line == "met\n" for line in iter(pod.stdout.readline, ""))
    begun = time.monotonic()
    pods.signal("digits-1.digits", signal.SIGTERM)
    (survived, out), (deleted, _) = pods.ends(20).values()
    # The first process of a container is not ended by a signal, so the exit code must say it.
    assert (survived, deleted) == (1, 128 + signal.SIGTERM)
    assert "worker 1" in out
    # Kubernetes kills after 30 s what has not ended by then.
    assert in_time(begun, 15)


def test_an_evicted_pod_is_saved_and_its_replacement_resumes(pods: Pods, tmp_path: Path) -> None:
    """With the weights of a job that nobody has evicted. The claim is a folder that all pods have."""
    program = (PROGRAMS / "preempted.py", tmp_path, "executions")
    calm = tfmuster("launch", "-n", 2, "--seed", 5, *program, 10**6, cwd=tmp_path)
    assert calm.returncode == 0, calm.stderr
    with np.load(tmp_path / "final-0.npz") as file:
        expected = dict(file)
    volume = ("--checkpoint-volume", f"saved={tmp_path / 'saved'}", "--grace", 20)
    documents = manifest(tmp_path, "-n", 2, "--name", "digits", "--seed", 5, *volume, "--", *program, 4)
    apply(pods, documents)
    pods.tell_names()
    reached = [pods.network.in_work(f"node{index + 1}") / f"reached-{index}" for index in range(2)]
    wait_until(lambda: all(path.exists() for path in reached), 90)
    pods.signal("digits-1.digits", signal.SIGTERM)
    ended = pods.ends(40)
    assert {code for code, _ in ended.values()} == {128 + signal.SIGTERM}, ended
    (checkpoint,) = (tmp_path / "saved" / "digits" / "checkpoints").glob("*.checkpoint")
    put(pods.network, "fast", "")
    pods.forget()
    apply(pods, documents)
    pods.tell_names()
    said = good(pods.ends(120))
    assert f"resumes after step {int(checkpoint.stem)}" in said["digits-0.digits"]
    with np.load(tmp_path / "final-0.npz") as file:
        for name, value in expected.items():
            np.testing.assert_array_equal(file[name], value, err_msg=name)
