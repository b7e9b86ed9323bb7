"""A job for Kubernetes with everything in it, and what Kubernetes makes of its words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import strategies as st

from tfmuster.launcher.manifests.kubernetes import indexed_job, job_set, tf_job, to_yaml
from tfmuster.launcher.manifests.pod_job import PodJob

FULL: dict[str, Any] = {
    "command": ("train.py", "--epochs", "3"),
    "image": "localhost:5000/me/digits:1.0@sha256:0123456789abcdef",
    "workers": 4,
    "ps": 2,
    "name": "digits",
    "namespace": "lab",
    "gpus_per_worker": 2,
    "env": {"MODE": "fast"},
    "volumes": {"data": "/data", "runs.2": "/runs"},
    "token_secret": "digits-token",
    "pull_secret": "registry",
    "node_selector": {"example.org/pool": "gpu"},
    "tolerations": ("spot=true:NoSchedule", "spot"),
    "ttl": 60,
    "deadline": 3600,
    "seed": 7,
}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


def in_the_pod(text: str, variables: Mapping[str, str]) -> str:
    """What Kubernetes makes of a command's word or a variable: $$ is $, and $(NAME) the variable's value."""

    def replace(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", replace, text)


def container_of(template: Mapping[str, Any]) -> dict[str, Any]:
    (one,) = template["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def check_nothing_is_injected(words: list[str], value: str) -> None:
    given = {**FULL, "command": ("train.py", *words), "env": {"MODE": value}}
    for make in (indexed_job, job_set, tf_job):
        plain = make(PodJob(**FULL))
        text = to_yaml(make(PodJob(**given)))
        assert text.isascii()
        # Kubernetes splits documents by such lines before it reads them as YAML.
        assert re.findall("^---", text, re.M) == ["---"] * len(plain)
        for token in yaml.scan(text):
            if isinstance(token, yaml.ScalarToken) and token.plain:
                assert re.fullmatch(r"[A-Za-z][A-Za-z0-9./-]*|[0-9]+", token.value)
        documents = list(yaml.safe_load_all(text))
        assert [each["kind"] for each in documents] == [each["kind"] for each in plain]
        for document, before in zip(documents, plain, strict=True):
            if document["kind"] == "Job":
                templates = [(document["spec"]["template"], before["spec"]["template"])]
            elif document["kind"] == "JobSet":
                sets = [each["spec"]["replicatedJobs"] for each in (document, before)]
                templates = [
                    tuple(job["template"]["spec"]["template"] for job in pair)
                    for pair in zip(*sets, strict=True)
                ]
            elif document["kind"] == "TFJob":
                mine, theirs = (each["spec"]["tfReplicaSpecs"] for each in (document, before))
                templates = [(mine[kind]["template"], theirs[kind]["template"]) for kind in theirs]
            else:
                templates = []
            for template, like in templates:
                container = container_of(template)
                variables = {each["name"]: each.get("value", "the token") for each in container["env"]}
                command = [in_the_pod(word, variables) for word in container["command"]]
                assert command == ["tfmuster", "worker", "--", *given["command"]]
                assert in_the_pod(variables["MODE"], variables) == value
                # Apart from these, it is the same manifest.
                container["command"] = container_of(like)["command"]
                container["env"] = container_of(like)["env"]
            assert document == before
