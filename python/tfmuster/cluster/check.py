"""Check a cluster description and list every finding at once. With a wrong one TensorFlow would wait forever.

:data:`tfmuster.cluster.findings.KINDS` lists the codes, what they mean, and how to fix the problem.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..net.addresses import split_address
from .findings import KINDS, Finding, Findings
from .rules import Jobs, examine_document
from .spec import Cluster, Task, checked_cluster, checked_task, described_by
from .tf_config import note_if_too_long, tf_config_json

#: Number of addresses that are tried at a time.
_THREADS = 64


@dataclass(frozen=True)
class Report:
    """The result of :func:`check_cluster`.

    Attributes
    ----------
    findings : tuple of Finding
    task : Task or None
        The task, if the description names one and nothing is wrong.
    cluster : Cluster or None
        The cluster, if nothing is wrong.
    """

    __module__ = "tfmuster"

    findings: tuple[Finding, ...]
    task: Task | None = None
    cluster: Cluster | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the description unusable."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that were repaired or look odd."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON and for R: ok, findings, cluster, task."""
        return {
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
            "cluster": self.cluster.to_dict() if self.cluster else None,
            "task": self.task.to_dict() if self.task else None,
        }

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        if self.cluster:
            lines.append(str(self.cluster))
        if self.task:
            lines.append(f"this is {self.task}")
        counts = ", ".join(
            f"{len(some)} {word}" + "s" * (len(some) != 1)
            for some, word in ((self.errors, "error"), (self.warnings, "warning"))
            if some
        )
        return "\n".join([*lines, counts or "no findings"])


def check_cluster(
    source: str | bytes | os.PathLike[str] | Mapping[str, Any] | Cluster | None = None,
    *,
    worker: Iterable[str] = (),
    ps: Iterable[str] = (),
    chief: Iterable[str] = (),
    evaluator: Iterable[str] = (),
    type: str | None = None,
    index: int | None = None,
    connect: bool = False,
    timeout: float = 3.0,
) -> Report:
    """Check a cluster description, and report what is wrong instead of raising an error.

    Parameters
    ----------
    source
        The path of a JSON or YAML file (``-`` for standard input), a JSON or YAML text, a dict or a
        :class:`Cluster`. With None, the addresses given by keyword are checked or, without any, the
        environment variable TF_CONFIG. A str is a text if it has a line break or begins with ``{`` or ``[``;
        otherwise it is a path.
    worker, ps, chief, evaluator
        Addresses, instead of ``source``.
    type, index
        The task, instead of the one that ``source`` names. A TF_CONFIG must name one.
    connect : bool
        Whether to also try a TCP connection to every address.
    timeout : float
        How long to wait for each address, in seconds.

    Returns
    -------
    Report
    """
    findings = Findings()
    addresses = described_by({"chief": chief, "worker": worker, "ps": ps, "evaluator": evaluator})
    task = None
    if type is not None or index is not None:
        task = {key: value for key, value in (("type", type), ("index", index)) if value is not None}
    jobs, place = _examine(source, addresses, task, findings)
    if findings.failed:
        return Report(tuple(findings))
    cluster = checked_cluster(jobs)
    named = checked_task(*place, cluster) if place else None
    note_if_too_long(tf_config_json(named or cluster.chief_task()), findings)
    if connect:
        _try_addresses(cluster, findings, timeout)
    return Report(tuple(findings), named, cluster)


def _examine(
    source: object, addresses: Mapping[str, object], task: Mapping[str, object] | None, findings: Findings
) -> tuple[Jobs, tuple[str, int] | None]:
    from .documents import parse_document, read_document

    nothing: tuple[Jobs, None] = ({}, None)
    if source is not None and addresses:
        findings.note("two-sources", "arguments", ", ".join(addresses))
        return nothing
    if isinstance(source, Cluster):
        return examine_document(source.to_dict(), findings, task=task)
    if addresses:
        return examine_document(addresses, findings, task=task)
    wanted: Literal["no", "with cluster key", "yes"] = "with cluster key"
    if source is None:
        text: str | bytes = os.environ.get("TF_CONFIG", "")
        if not text.strip():
            findings.note("tf-config-not-set", "TF_CONFIG")
            return nothing
        document = parse_document(text, findings)
        wanted = "yes"
    elif isinstance(source, (bytes, bytearray)) or (isinstance(source, str) and _is_text(source)):
        text = source if isinstance(source, str) else bytes(source)
        document = parse_document(text, findings, yaml=None)
    elif isinstance(source, (str, os.PathLike)):
        document = read_document(source, findings)
        # Every machine gets the same file, so it need not name a task.
        if not (isinstance(document, dict) and "task" in document):
            wanted = "no"
    else:
        document = source
    if findings.failed:
        return nothing
    bare = source is not None
    return examine_document(document, findings, task=task, cluster_key_needed=not bare, task_wanted=wanted)


def _is_text(source: str) -> bool:
    return "\n" in source or source.lstrip().startswith(("{", "["))


def _try_addresses(cluster: Cluster, findings: Findings, timeout: float) -> None:
    """Note each address that can't be reached from here within `timeout` seconds.

    A refused connection is only a warning: the machine answers, and its task has not started yet.
    """
    places = {
        f"cluster.{job}[{i}]": address for job, all_ in cluster.jobs.items() for i, address in enumerate(all_)
    }
    untried = list(places.items())
    problems: dict[str, tuple[str, str] | None] = {}

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                place, address = untried.pop()
                problems[place] = _problem(address, timeout)

    # Daemon threads, because resolving a name can't be interrupted: a dead DNS server must not block the
    # exit.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_THREADS, len(places)))]
    for thread in threads:
        thread.start()
    rounds = -(-len(places) // len(threads))
    deadline = time.monotonic() + timeout * rounds + 2.0
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for place, address in places.items():
        if (problem := problems.get(place, ("not-reachable", "no answer in time"))) is not None:
            code, reason = problem
            findings.note(code, place, address, message=f"{KINDS[code].meaning}: {reason}")


def _problem(address: str, timeout: float) -> tuple[str, str] | None:
    import socket

    try:
        socket.create_connection(split_address(address), timeout).close()
    except ConnectionRefusedError as error:
        return "nothing-listens", error.strerror or "refused"
    except socket.gaierror as error:
        return "name-not-found", error.strerror or "unknown name"
    except TimeoutError:
        return "not-reachable", f"no answer within {timeout:g} s"
    except OSError as error:
        return "not-reachable", error.strerror or str(error)
    return None
