"""Check a cluster and a task in it, and note every finding at once. Any input is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..net.addresses import address_problems, host_key, split_address

if TYPE_CHECKING:
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
    document: Any,
    found: Findings,
    *,
    task: Mapping[str, Any] | None = None,
    cluster_key_needed: bool = False,
    task_wanted: Literal["no", "with cluster key", "yes"] = "no",
) -> tuple[Jobs, tuple[str, int] | None]:
    """Check a whole document: a TF_CONFIG, or a cluster file.

    Parameters
    ----------
    document
        Any value; a valid one is ``{"cluster": {...}, "task": {...}}`` or the bare jobs.
    found
        The list to which findings are added.
    task
        Type and index that replace those of the document.
    cluster_key_needed
        Whether bare jobs are an error, as they are for TensorFlow.
    task_wanted
        When a missing task is an error: never, only in a document that has the form of a TF_CONFIG, or
        always. With "no" the document's task is ignored.

    Returns
    -------
    (dict, (str, int) or None)
        See :func:`examine_cluster` and :func:`examine_task`.
    """
    if not isinstance(document, Mapping):
        found.note("not-object", "document", document)
        return {}, None
    wrapped = cluster_key_needed or bool(_DOCUMENT_KEYS & document.keys())
    if wrapped:
        for key in document:
            if key not in _DOCUMENT_KEYS:
                found.note("unknown-key", "document", key)
    jobs: Jobs = {}
    if wrapped and "cluster" not in document:
        found.note("cluster-missing", "document", document)
    else:
        jobs = examine_cluster(document["cluster"] if wrapped else document, found)
    if task is not None:
        return jobs, examine_task(task, jobs, found)
    if task_wanted != "no" and wrapped and "task" in document:
        return jobs, examine_task(document["task"], jobs, found)
    if task_wanted == "yes" or (task_wanted != "no" and wrapped):
        found.note("task-missing", "task")
    return jobs, None


def examine_cluster(described: Any, found: Findings, *, where: str = "cluster") -> Jobs:
    """Check the jobs of a cluster.

    Parameters
    ----------
    described
        Any value; a valid one maps job names to lists of addresses.
    found
        The list to which findings are added.
    where
        What to call the cluster in the findings.

    Returns
    -------
    dict
        The jobs and their addresses in the order of :data:`JOBS`. They form a cluster, and all addresses are
        text, only if ``found`` has no error.
    """
    if not isinstance(described, Mapping):
        found.note("cluster-not-object", where, described)
        return {}
    if not described:
        found.note("empty-cluster", where, "{}")
        return {}
    for name in described:
        if found.full:
            break
        if name not in JOBS:
            known = _OLD_NAMES.get(name.lower() if isinstance(name, str) else "")
            if known is None and isinstance(name, str) and name.strip().lower() in JOBS:
                known = f"write {name.strip().lower()}"
            found.note("unknown-job", where, name, fix=known)
    lists = {job: _as_list(described[job], f"{where}.{job}", found) for job in JOBS if job in described}
    count = sum(map(len, lists.values()))
    if count > MOST_TASKS:
        found.note("too-many-tasks", where, f"{count} tasks")
        return {}
    jobs = {job: _good_addresses(items, f"{where}.{job}", found) for job, items in lists.items() if items}
    if len(lists.get("chief", [])) > 1:
        found.note("two-chiefs", f"{where}.chief", lists["chief"])
    if lists and not lists.get("chief") and not lists.get("worker") and count:
        found.note("no-worker", where, ", ".join(lists))
    _examine_together(jobs, where, found)
    return {job: tuple(items) for job, items in lists.items() if items}


def _as_list(value: Any, where: str, found: Findings) -> list[Any]:
    if isinstance(value, str):
        found.note("lone-address", where, value)
        return [value]
    if not isinstance(value, (list, tuple)):
        found.note("job-not-list", where, value)
        return []
    if not value:
        found.note("empty-job", where, "[]")
    return list(value)


def _good_addresses(items: list[Any], where: str, found: Findings) -> dict[int, str]:
    good = {}
    for index, item in enumerate(items):
        if not isinstance(item, str):
            found.note("address-not-text", f"{where}[{index}]", item)
        else:
            problem = None
            for problem in address_problems(item):
                found.note(problem, f"{where}[{index}]", item)
            if problem is None:
                good[index] = item
        if found.full:
            break
    return good


def _examine_together(jobs: Mapping[str, Mapping[int, str]], where: str, found: Findings) -> None:
    """Find problems between addresses: duplicates, and loopback addresses beside other hosts."""
    first_at: dict[tuple[str, int], str] = {}
    keys: dict[str, str] = {}
    loopback: tuple[str, str] | None = None
    remote: str | None = None
    for job, addresses in jobs.items():
        for index, address in addresses.items():
            host, port = split_address(address)
            key = keys.get(host)
            if key is None:
                key = keys[host] = host_key(host)
            if key == "localhost":
                loopback = loopback or (f"{where}.{job}[{index}]", address)
            else:
                remote = remote or address
            before = first_at.setdefault((key, port), f"{job}[{index}]")
            place = f"{job}[{index}]"
            if before != place and not found.full:
                found.note(
                    "duplicate-address",
                    f"{where}.{place}",
                    address,
                    message=f"this is the address of {before}, too",
                )
    if loopback and remote:
        found.note(
            "loopback-mixed",
            *loopback,
            message=f"only this machine can reach it, and {printable_host(remote)} is elsewhere",
        )


def printable_host(address: str) -> str:
    """Return the host of a valid address, shortened for a message."""
    host = split_address(address)[0]
    return host if len(host) <= 60 else host[:57] + "..."


def examine_task(task: Any, jobs: Jobs, found: Findings, *, where: str = "task") -> tuple[str, int] | None:
    """Check that a task belongs to the cluster.

    Parameters
    ----------
    task
        Any value; a valid one is a mapping with ``type`` and ``index``.
    jobs
        The cluster's jobs. If empty, because the cluster itself is wrong, only the form is checked.
    found
        The list to which findings are added.
    where
        What to call the task in the findings.

    Returns
    -------
    (str, int) or None
        Type and index, or None if they are wrong.
    """
    if not isinstance(task, Mapping):
        found.note("task-not-object", where, task)
        return None
    for key in task:
        if key not in _TASK_KEYS:
            found.note("unknown-key", where, key)
    type_, index = task.get("type"), task.get("index")
    addresses = jobs.get(type_) if isinstance(type_, str) else None
    if type_ is None:
        found.note("type-missing", f"{where}.type")
    elif jobs and addresses is None:
        fix = f"use one that it has: {', '.join(jobs)}"
        found.note("type-not-in-cluster", f"{where}.type", type_, fix=fix)
    if index is None:
        found.note("index-missing", f"{where}.index")
        return None
    number = _as_index(index, len(addresses) if addresses else None, f"{where}.index", found)
    return (type_, number) if isinstance(type_, str) and addresses and number is not None else None


def _as_index(index: Any, size: int | None, where: str, found: Findings) -> int | None:
    number: Any = index
    if isinstance(index, str) and index.isascii() and index.removeprefix("-").isdigit() and len(index) <= 18:
        number = int(index)
    if isinstance(number, bool) or not isinstance(number, int):
        found.note("index-not-integer", where, index)
        return None
    if number < 0:
        found.note("index-negative", where, index)
        return None
    if size is not None and number >= size:
        found.note("index-too-large", where, index, message=f"the last index is {size - 1}")
        return None
    if isinstance(index, str):
        found.note("index-as-text", where, index)
    return int(number)
