"""Define what can be wrong with a cluster: one table of codes, and the record of one finding.

:data:`KINDS` is the only place that defines a code, its severity and how to fix it. The checks and
``docs/reference/clusters.md`` take them from here.
"""

from __future__ import annotations

import reprlib
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from ..words import Code, Words, now

Severity = Literal["error", "warning"]

#: More findings than this help no one, and a document of a million bad addresses must not take minutes.
MOST_FINDINGS = 1000
_LONGEST_VALUE = 80


class Kind(NamedTuple):
    """One row of the table: the meaning, how to fix the problem, and the severity."""

    meaning: str
    fix: str
    severity: Severity = "error"


KINDS: dict[str, Kind] = {
    # The document
    "tf-config-not-set": Kind(
        "the environment variable TF_CONFIG is not set",
        Words(
            "set it ({}), or name a cluster file or addresses",
            Code("use_tf_config(task)", "use_tf_config(task)", "tfmuster config --format shell"),
        ),
    ),
    "two-sources": Kind("both a document and addresses were given", "describe the cluster in one way only"),
    "file-unreadable": Kind("the cluster file can't be read", "check the path and its permissions"),
    "document-too-large": Kind(
        "the document is larger than any cluster description can be",
        "check that this is the right file: a cluster of 10,000 workers takes about 0.3 MB",
    ),
    "not-utf8": Kind("the document is not UTF-8 text", "save the file as UTF-8"),
    "not-json": Kind("the document is not JSON", "correct the JSON at this line and column"),
    "not-yaml": Kind(
        "the document is not YAML of mappings, lists and scalars",
        "correct the YAML at this line and column; put [IPv6]:port in quotes",
    ),
    "yaml-alias": Kind(
        "YAML anchors, aliases and tags are not accepted in a cluster file", "write the value out"
    ),
    "too-deep": Kind("the document is nested too deeply", "a cluster has no more than three levels"),
    "not-object": Kind(
        "the document is not an object",
        'write it as {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}',
    ),
    "duplicate-key": Kind("a key occurs twice in one object", "keep one of the two"),
    "unknown-key": Kind("TensorFlow doesn't know this key", "check the spelling, or remove it", "warning"),
    "too-long-for-environment": Kind(
        "the TF_CONFIG text is longer than the 128 KiB that Linux allows for one variable of a new process",
        "child processes can't be started with it in their environment: give them the cluster as a file",
        "warning",
    ),
    "more-findings": Kind("there are more findings than are listed", "fix these first, then check again"),
    # The cluster
    "cluster-missing": Kind(
        "there is no cluster", 'put the jobs under the key "cluster": {"cluster": {"worker": [...]}}'
    ),
    "cluster-not-object": Kind(
        "the cluster is not an object of jobs", 'write it as {"worker": ["host:port", ...]}'
    ),
    "empty-cluster": Kind("the cluster has no addresses", "name at least one worker or chief"),
    "no-worker": Kind(
        "the cluster has neither a worker nor a chief",
        "name at least one of them: without one, no task trains",
    ),
    "unknown-job": Kind(
        "TensorFlow's strategies don't know this job", "use chief, worker, ps and evaluator only"
    ),
    "empty-job": Kind("the job has no addresses", "name its addresses, or leave the job out"),
    "job-not-list": Kind(
        "the job is not a list of addresses", 'write it as ["host:port", ...], in order of the index'
    ),
    "lone-address": Kind(
        "a single address was given instead of a list; it is used as a list of one",
        'write it as ["host:port"]',
        "warning",
    ),
    "two-chiefs": Kind("there is more than one chief", "keep one and make the others workers"),
    "too-many-tasks": Kind("the cluster has more than 100,000 tasks", "check that this is the right file"),
    "duplicate-address": Kind("two tasks have the same address", "give each task a host and port of its own"),
    "loopback-mixed": Kind(
        "loopback addresses are mixed with others, and no other machine can reach them",
        "use names or addresses that every machine of the cluster can reach",
    ),
    # An address
    "address-not-text": Kind("an address is not text", 'write it as "host:port"'),
    "empty-address": Kind("an address is empty", 'write it as "host:port"'),
    "address-too-long": Kind("an address is longer than any host name", 'write it as "host:port"'),
    "control-character": Kind("there is a control character in an address", "remove it"),
    "blank-in-address": Kind("there is a blank in an address", "remove it"),
    "not-ascii": Kind(
        "there is a character outside ASCII in an address", "write an international name in its xn-- form"
    ),
    "several-addresses": Kind("one text holds several addresses", "make each one a separate item or option"),
    "shell-character": Kind("there is a character in an address that a shell would interpret", "remove it"),
    "scheme-in-address": Kind("an address has a scheme", "leave out the part up to ://"),
    "user-in-address": Kind("an address has a user name", "leave out the part up to @"),
    "path-in-address": Kind("an address has a path", "leave out what follows the port"),
    "host-empty": Kind("an address has no host", 'write it as "host:port"'),
    "host-invalid": Kind(
        "the host is not a DNS name",
        "use letters, digits, hyphens and dots; at most 63 characters between dots",
    ),
    "ipv4-invalid": Kind(
        "the host is not an IPv4 address", "write four numbers from 0 to 255, without leading zeros"
    ),
    "ipv6-invalid": Kind("the host is not an IPv6 address", "write it as [2001:db8::1]:port"),
    "ipv6-without-brackets": Kind(
        "an IPv6 address needs brackets before its port", "write it as [2001:db8::1]:port"
    ),
    "too-many-colons": Kind("an address has more than one colon", 'write it as "host:port"'),
    "wildcard-host": Kind(
        "the host means every interface; no other machine can connect to it",
        "write the name or address by which the others reach this machine",
    ),
    "port-missing": Kind("an address has no port", "add one, such as :2222"),
    "port-not-a-number": Kind("the port is not a plain number", "write it in digits, such as :2222"),
    "port-zero": Kind("port 0 can't be connected to", "use a port from 1 to 65535"),
    "port-too-large": Kind("the port is over 65535", "use a port from 1 to 65535"),
    # The task
    "task-missing": Kind(
        "nothing says which task of the cluster this process is",
        'add "task": {"type": "worker", "index": 0}, or type and index',
    ),
    "task-not-object": Kind("the task is not an object", 'write it as {"type": "worker", "index": 0}'),
    "type-missing": Kind("the task has no type", "name its job, such as worker"),
    "type-not-in-cluster": Kind(
        "the task's type is not a job of the cluster", "use a job that the cluster has, or add it"
    ),
    "index-missing": Kind("the task has no index", "add it; the first is 0"),
    "index-as-text": Kind(
        "the index was given as text; it is used as a number", "write it without quotation marks", "warning"
    ),
    "index-not-integer": Kind("the task's index is not an integer", "write it as 0, 1, 2, ..."),
    "index-negative": Kind("the task's index is negative", "the first index is 0"),
    "index-too-large": Kind(
        "the task's index is beyond the job's last address", "count from 0, or add the address"
    ),
    # Reaching the addresses (only when asked to connect)
    "name-not-found": Kind(
        "the host name can't be resolved from here", "check the spelling and the DNS of this machine"
    ),
    "not-reachable": Kind(
        "the address can't be reached from here",
        "check that the machine is up and that no firewall blocks the port",
    ),
    "nothing-listens": Kind(
        "the machine answers, but nothing listens on this port",
        "nothing to do before the job starts; after that, start the task",
        "warning",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One problem, or one repair."""

    #: A key of :data:`KINDS`.
    code: str
    severity: Severity
    #: The place, such as ``cluster.worker[1]``, ``task.index`` or ``line 3, column 7``.
    where: str
    #: The offending value, printable, at most 80 characters.
    value: str
    message: str
    fix: str

    def to_dict(self) -> dict[str, str]:
        """Return plain data, for JSON and for R."""
        return asdict(self)

    def __str__(self) -> str:
        shown = f"{self.where}: " + (f"{self.value}: " if self.value else "")
        return f"{self.severity} {self.code}\n  {shown}{self.message}\n  to do: {self.fix}"


class Findings(list[Finding]):
    """A list of at most `MOST_FINDINGS` findings, and one that says that there are more."""

    @property
    def full(self) -> bool:
        """True if checks can stop, because no more findings are recorded."""
        return len(self) > MOST_FINDINGS

    def note(
        self, code: str, where: str, value: object = "", *, message: str | None = None, fix: str | None = None
    ) -> None:
        """Add a finding; ``message`` and ``fix`` replace the texts of the table by more exact ones."""
        if self.full:
            return
        if len(self) == MOST_FINDINGS:
            code, value, message, fix = "more-findings", "", None, None
        kind = KINDS[code]
        text, fix = message or kind.meaning, now(fix or kind.fix)
        self.append(Finding(code, kind.severity, where, printable(value), text, fix))

    @property
    def failed(self) -> bool:
        """True if one of the findings is an error."""
        return any(finding.severity == "error" for finding in self)


def printable(value: object) -> str:
    """Show any value as a short text without control characters, safe for a terminal."""
    if isinstance(value, str):
        text = value[: _LONGEST_VALUE + 1]
        if not text.isprintable():
            text = text.encode("unicode_escape").decode("ascii")
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        # Bounded in depth, length and digits, so that no hostile value costs time or recursion.
        text = reprlib.repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
