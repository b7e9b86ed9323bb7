"""Define clusters and tasks as validated, immutable values. This module does not import TensorFlow.

>>> cluster = Cluster(worker=["a:2222", "b:2222"])
>>> cluster.task("worker", 1).address
'b:2222'
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ..errors import ClusterError, TfmusterWarning
from ..net.addresses import split_address
from .findings import Finding, Findings
from .rules import JOBS, Jobs, examine_cluster, examine_document, examine_task

#: Types of the tasks that train one model together.
TRAINING = ("chief", "worker")
#: Number of errors that a message shows; the field ``findings`` has all.
_MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster: for each job the addresses of its tasks, in the order of their indices.

    Parameters
    ----------
    chief, worker, ps, evaluator : sequence of str
        Addresses, each ``host:port``, where the host is a DNS name, an IPv4 address or ``[IPv6]``. There must
        be at least one worker or a chief.

    Raises
    ------
    ClusterError
        The description is wrong. The field ``findings`` lists all findings (see
        :mod:`tfmuster.cluster.check`).

    Examples
    --------
    >>> print(Cluster(chief=["a:2222"], worker=["b:2222", "c:2222"]))
    cluster of 3 tasks
      chief 0   a:2222
      worker 0  b:2222
      worker 1  c:2222
    """

    __module__ = "tfmuster"

    chief: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()
    evaluator: tuple[str, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            chief: Iterable[str] = (),
            worker: Iterable[str] = (),
            ps: Iterable[str] = (),
            evaluator: Iterable[str] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        findings = Findings()
        described = described_by({job: getattr(self, job) for job in JOBS})
        jobs = examine_cluster(described, findings)
        raise_or_warn(findings)
        for job in JOBS:
            object.__setattr__(self, job, jobs.get(job, ()))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Cluster:
        """Read a JSON or YAML file that holds the jobs, or a whole TF_CONFIG, whose task is ignored.

        Raises
        ------
        ClusterError
            The file is unusable. The field ``findings`` lists all findings.
        """
        from .documents import read_document

        findings = Findings()
        return cls._from_document(read_document(path, findings), findings)

    @classmethod
    def from_dict(cls, described: Mapping[str, object]) -> Cluster:
        """Make a cluster of a dict: the jobs, or ``{"cluster": jobs}``. Raises ClusterError."""
        return cls._from_document(described, Findings())

    @classmethod
    def _from_document(cls, document: object, findings: Findings) -> Cluster:
        if not findings.failed:
            jobs, _ = examine_document(document, findings)
        raise_or_warn(findings)
        return checked_cluster(jobs)

    @property
    def jobs(self) -> Jobs:
        """The nonempty jobs and their addresses, in the order chief, worker, ps, evaluator."""
        return {job: getattr(self, job) for job in JOBS if getattr(self, job)}

    @property
    def digest(self) -> str:
        """SHA-256 of the cluster's compact JSON, as 64 hexadecimal digits: the same on every machine."""
        return hashlib.sha256(orjson.dumps(self.jobs)).hexdigest()

    def task(self, type: str, index: int) -> Task:
        """Return the task with this type and index. Raises ClusterError if the cluster does not have it."""
        return Task(type, index, self)

    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks, in the order of :attr:`jobs` and of their indices."""
        return tuple(checked_task(job, i, self) for job, all_ in self.jobs.items() for i in range(len(all_)))

    def chief_task(self) -> Task:
        """Return the task that leads: the chief, or worker 0 if there is no chief."""
        return checked_task("chief" if self.chief else "worker", 0, self)

    def to_dict(self) -> dict[str, list[str]]:
        """Return plain data, as in a TF_CONFIG."""
        return {job: list(addresses) for job, addresses in self.jobs.items()}

    def __len__(self) -> int:
        return sum(len(getattr(self, job)) for job in JOBS)

    def __str__(self) -> str:
        tasks = self.tasks()
        shown = tasks if len(tasks) <= 20 else tasks[:18]
        width = max(len(task.name) for task in shown)
        lines = [f"cluster of {len(tasks)} task" + "s" * (len(tasks) != 1)]
        lines += [f"  {task.name:<{width}}  {task.address}" for task in shown]
        if len(shown) < len(tasks):
            lines.append(f"  and {len(tasks) - len(shown)} more, to {tasks[-1].name}  {tasks[-1].address}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Task:
    """One task of a cluster.

    Parameters
    ----------
    type : str
        A job that the cluster has.
    index : int
        The position of the task's address in its job, from 0.
    cluster : Cluster

    Raises
    ------
    ClusterError
        The cluster has no such task. The field ``findings`` says why.
    """

    __module__ = "tfmuster"

    type: str
    index: int
    cluster: Cluster

    def __post_init__(self) -> None:
        findings = Findings()
        checked = examine_task({"type": self.type, "index": self.index}, self.cluster.jobs, findings)
        raise_or_warn(findings)
        if checked:
            object.__setattr__(self, "index", checked[1])

    @property
    def address(self) -> str:
        """The address on which this task listens, ``host:port``."""
        address: str = getattr(self.cluster, self.type)[self.index]
        return address

    @property
    def is_chief(self) -> bool:
        """True if this task leads: only the chief saves, and the others report to it."""
        return self.type == "chief" or (self.type == "worker" and self.index == 0 and not self.cluster.chief)

    @property
    def name(self) -> str:
        """A readable name, such as ``worker 1``."""
        return f"{self.type} {self.index}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as in a TF_CONFIG: ``type`` and ``index``."""
        return {"type": self.type, "index": self.index}

    def __str__(self) -> str:
        return f"{self.name} at {self.address}"


def training_tasks(cluster: Cluster) -> list[Task]:
    """Return the tasks that train one model together, in the order of `Cluster.tasks`."""
    return [task for task in cluster.tasks() if task.type in TRAINING]


def hosts_of(cluster: Cluster) -> list[str]:
    """Return the hosts of a cluster's addresses, each once, IPv6 without brackets."""
    addresses = (address for job in cluster.jobs.values() for address in job)
    return list(dict.fromkeys(split_address(address)[0] for address in addresses))


def described_by(addresses: Mapping[str, object]) -> dict[str, object]:
    """Turn jobs given as arguments into a document: drop empty jobs, and make other iterables lists."""
    described: dict[str, object] = {}
    for job, value in addresses.items():
        # The order gives the index, so a set is as wrong as a mapping; examine_cluster reports it.
        as_it_is = isinstance(value, (str, bytes, list, tuple, dict, set, frozenset))
        items = value if as_it_is or not isinstance(value, Iterable) else list(value)
        if items is not None and items not in ([], ()):
            described[job] = items
    return described


def raise_findings(findings: Iterable[Finding]) -> None:
    """Raise ClusterError with all findings if one of them is an error."""
    findings = list(findings)
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    first = errors[0]
    message = "The cluster description can't be used"
    dicts = [finding.to_dict() for finding in findings]
    if len(errors) == 1:
        where = f"{first.where}: {first.value}" if first.value else first.where
        raise ClusterError(f"{message}: {first.message}.", found=where, fix=first.fix, findings=dicts)
    lines = [f"{message}: {len(errors)} errors."]
    for error in errors[:_MOST_SHOWN]:
        lines.append(f"  {error.where}: " + (f"{error.value}: " if error.value else "") + error.message)
        lines.append(f"    to do: {error.fix}")
    if len(errors) > _MOST_SHOWN:
        lines.append(f"  and {len(errors) - _MOST_SHOWN} more")
    raise ClusterError("\n".join(lines), findings=dicts)


def checked_cluster(jobs: Jobs) -> Cluster:
    """Make a cluster of jobs that ``examine_cluster`` has already accepted."""
    cluster = object.__new__(Cluster)
    for job in JOBS:
        object.__setattr__(cluster, job, jobs.get(job, ()))
    return cluster


def checked_task(type: str, index: int, cluster: Cluster) -> Task:
    """Make a task that is known to be in the cluster, without checking it again."""
    task = object.__new__(Task)
    object.__setattr__(task, "type", type)
    object.__setattr__(task, "index", index)
    object.__setattr__(task, "cluster", cluster)
    return task


def raise_or_warn(findings: Findings) -> None:
    """Raise ClusterError if ``findings`` has an error; otherwise warn of each finding."""
    raise_findings(findings)
    if not findings:
        return
    # The warning must point at the user's line, however deep in this package it was found.
    frame, level = sys._getframe(), 1
    package = __name__.partition(".")[0]
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    for finding in findings:
        shown = f"{finding.where}: {finding.value}: {finding.message}; {finding.fix}"
        warnings.warn(shown, TfmusterWarning, stacklevel=level)
