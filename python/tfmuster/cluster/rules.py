"""Check a cluster and a task in it, and note every finding at once. Any input is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..net.addresses import address_problems, host_key, split_address
from .findings import Findings

#: All jobs of a cluster, in the order in which they are written.
JOBS = ("chief", "worker", "ps", "evaluator")

MOST_TASKS = 100_000

#: Keys that a TF_CONFIG may have. TensorFlow reads the first four; Kubeflow and Google's cloud services add
#: the others.
_DOCUMENT_KEYS = {"cluster", "task", "rpc_layer", "session_master", "environment", "job"}
#: Google's cloud services add ``trial`` and ``cloud``.
_TASK_KEYS = {"type", "index", "trial", "cloud"}

_OLD_NAMES = {
    "master": "write chief: only TensorFlow 1 calls it master",
    "workers": "write worker",
    "chiefs": "write chief",
    "parameter_server": "write ps",
    "parameter_servers": "write ps",
    "server": "write ps",
    "eval": "write evaluator",
}

Jobs = dict[str, tuple[str, ...]]


def examine_document(
    document: object,
    findings: Findings,
    *,
    task: Mapping[str, Any] | None = None,
    cluster_key_needed: bool = False,
    task_wanted: Literal["no", "with cluster key", "yes"] = "no",
) -> tuple[Jobs, tuple[str, int] | None]:
    """Check a whole document: ``{"cluster": {...}, "task": {...}}`` as in TF_CONFIG, or the bare jobs.

    ``task`` replaces the document's. ``cluster_key_needed`` makes bare jobs an error, as for TensorFlow.
    ``task_wanted`` says when a missing task is an error: never (the document's task is ignored), only in the
    form of a TF_CONFIG, or always. Returns the results of :func:`examine_cluster` and :func:`examine_task`.
    """
    if not isinstance(document, Mapping):
        findings.note("not-object", "document", document)
        return {}, None
    wrapped = cluster_key_needed or bool(_DOCUMENT_KEYS & document.keys())
    if wrapped:
        for key in document:
            if key not in _DOCUMENT_KEYS:
                findings.note("unknown-key", "document", key)
    jobs: Jobs = {}
    if wrapped and "cluster" not in document:
        findings.note("cluster-missing", "document", document)
    else:
        jobs = examine_cluster(document["cluster"] if wrapped else document, findings)
    if task is not None:
        return jobs, examine_task(task, jobs, findings)
    if task_wanted != "no" and wrapped and "task" in document:
        return jobs, examine_task(document["task"], jobs, findings)
    if task_wanted == "yes" or (task_wanted != "no" and wrapped):
        findings.note("task-missing", "task")
    return jobs, None


def examine_cluster(described: object, findings: Findings) -> Jobs:
    """Check the jobs of a cluster, and return them with their addresses in the order of :data:`JOBS`.

    They form a cluster, and all addresses are text, only if ``findings`` has no error.
    """
    if not isinstance(described, Mapping):
        findings.note("cluster-not-object", "cluster", described)
        return {}
    if not described:
        findings.note("empty-cluster", "cluster", "{}")
        return {}
    for name in described:
        if findings.full:
            break
        if name not in JOBS:
            known = _OLD_NAMES.get(name.lower() if isinstance(name, str) else "")
            if known is None and isinstance(name, str) and name.strip().lower() in JOBS:
                known = f"write {name.strip().lower()}"
            findings.note("unknown-job", "cluster", name, fix=known)
    lists = {job: _as_list(described[job], f"cluster.{job}", findings) for job in JOBS if job in described}
    count = sum(map(len, lists.values()))
    if count > MOST_TASKS:
        findings.note("too-many-tasks", "cluster", f"{count} tasks")
        return {}
    jobs = {job: _good_addresses(items, f"cluster.{job}", findings) for job, items in lists.items()}
    if len(lists.get("chief", [])) > 1:
        findings.note("two-chiefs", "cluster.chief", lists["chief"])
    if lists and not lists.get("chief") and not lists.get("worker") and count:
        findings.note("no-worker", "cluster", ", ".join(lists))
    _examine_together(jobs, findings)
    return {job: tuple(items) for job, items in lists.items() if items}


def _as_list(value: object, where: str, findings: Findings) -> list[Any]:
    if isinstance(value, str):
        findings.note("lone-address", where, value)
        return [value]
    if not isinstance(value, (list, tuple)):
        findings.note("job-not-list", where, value)
        return []
    if not value:
        findings.note("empty-job", where, "[]")
    return list(value)


def _good_addresses(items: list[Any], where: str, findings: Findings) -> dict[int, str]:
    good = {}
    for index, item in enumerate(items):
        if not isinstance(item, str):
            findings.note("address-not-text", f"{where}[{index}]", item)
        else:
            problem = None
            for problem in address_problems(item):
                findings.note(problem, f"{where}[{index}]", item)
            if problem is None:
                good[index] = item
        if findings.full:
            break
    return good


def _examine_together(jobs: Mapping[str, Mapping[int, str]], findings: Findings) -> None:
    """Find problems between addresses: duplicates, and loopback addresses beside other hosts."""
    first_at: dict[tuple[str, int], str] = {}
    keys: dict[str, str] = {}
    loopback: tuple[str, str] | None = None
    remote: str | None = None
    for job, addresses in jobs.items():
        for index, address in addresses.items():
            place = f"{job}[{index}]"
            host, port = split_address(address)
            key = keys.get(host)
            if key is None:
                key = keys[host] = host_key(host)
            if key == "localhost":
                loopback = loopback or (f"cluster.{place}", address)
            else:
                remote = remote or host
            before = first_at.setdefault((key, port), place)
            if before != place and not findings.full:
                message = f"this is the address of {before}, too"
                findings.note("duplicate-address", f"cluster.{place}", address, message=message)
    if loopback and remote:
        elsewhere = remote if len(remote) <= 60 else remote[:57] + "..."
        message = f"only this machine can reach it, and {elsewhere} is elsewhere"
        findings.note("loopback-mixed", *loopback, message=message)


def examine_task(task: object, jobs: Jobs, findings: Findings) -> tuple[str, int] | None:
    """Check that a task belongs to the cluster. Return its type and index, or None if they are wrong.

    Without jobs, because the cluster itself is wrong, only the form is checked.
    """
    if not isinstance(task, Mapping):
        findings.note("task-not-object", "task", task)
        return None
    for key in task:
        if key not in _TASK_KEYS:
            findings.note("unknown-key", "task", key)
    type_, index = task.get("type"), task.get("index")
    addresses = jobs.get(type_) if isinstance(type_, str) else None
    if type_ is None:
        findings.note("type-missing", "task.type")
    elif jobs and addresses is None:
        fix = f"use one that it has: {', '.join(jobs)}"
        findings.note("type-not-in-cluster", "task.type", type_, fix=fix)
    if index is None:
        findings.note("index-missing", "task.index")
        return None
    number = _as_index(index, len(addresses) if addresses else None, findings)
    return (type_, number) if isinstance(type_, str) and addresses and number is not None else None


def _as_index(index: object, size: int | None, findings: Findings) -> int | None:
    where, number = "task.index", index
    if isinstance(index, str) and index.isascii() and index.removeprefix("-").isdigit() and len(index) <= 18:
        number = int(index)
    if isinstance(number, bool) or not isinstance(number, int):
        findings.note("index-not-integer", where, index)
    elif number < 0:
        findings.note("index-negative", where, index)
    elif size is not None and number >= size:
        findings.note("index-too-large", where, index, message=f"the last index is {size - 1}")
    else:
        if isinstance(index, str):
            findings.note("index-as-text", where, index)
        return int(number)
    return None
