"""Errors of a rendezvous, with the same text and fields on every task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..cluster.spec import Cluster, Task
from ..environment import TOKEN_VARIABLE
from ..errors import RendezvousError
from ..net.addresses import split_address

Entry = dict[str, Any]

#: Largest number of entries in each list of an error's fields, so that the error fits into one message.
MAX_LISTED: Final = 20
#: Largest number of them that the text shows.
MAX_SHOWN: Final = 8
_PACKAGES = {"tfmuster": "tfmuster", "tensorflow": "TensorFlow", "keras": "Keras", "python": "Python"}


def rendezvous_error(cluster: Cluster, seconds: float | None, **fields: list[Entry]) -> RendezvousError:
    """Build the error of a rendezvous that failed; `seconds` is the time limit if it has passed, else None.

    Its fields are lists, which may be empty: ``limits``, ``missing``, ``duplicates``, ``clusters``,
    ``versions``, ``ports``, ``unreachable``, ``strangers``. Long lists are cut to `MAX_LISTED` entries, and
    ``counts`` has their full lengths.
    """
    lists = {kind: fields.get(kind, []) for kind in _TEXTS}
    chief = cluster.chief_task()
    problems: list[str] = []
    fixes: list[str] = []
    for kind, (describe, fix) in _TEXTS.items():
        entries = lists[kind]
        if not entries or (kind == "strangers" and not lists["missing"]):
            continue
        if kind == "missing" and any(entry["task"] == chief.name for entry in lists["limits"]):
            # They may be here, and the chief could not accept their connections.
            continue
        problems += [describe(entry, chief) for entry in entries[:MAX_SHOWN]]
        if len(entries) > MAX_SHOWN:
            problems.append(f"and {len(entries) - MAX_SHOWN} more like this")
        fixes.append(fix if isinstance(fix, str) else fix(entries, chief))
    tasks = f"The {len(cluster)} tasks of the cluster"
    return RendezvousError(
        f"{tasks} can't work together."
        if seconds is None
        else f"{tasks} did not come together within {seconds:g} s.",
        found="\n         ".join(problems),
        fix="\n         ".join(fixes),
        chief={"task": chief.name, "address": chief.address},
        timeout=seconds,
        counts={kind: len(entries) for kind, entries in lists.items()},
        **{kind: entries[:MAX_LISTED] for kind, entries in lists.items()},
    )


def listed(texts: list[str]) -> str:
    """List the first texts, and say how many more there are."""
    more = [f"{len(texts) - MAX_SHOWN} more"] if len(texts) > MAX_SHOWN else []
    return ", ".join(texts[:MAX_SHOWN] + more)


def too_late(task: Task, seconds: float, reason: str) -> RendezvousError:
    """Build the error of a task that never reached the chief."""
    chief = task.cluster.chief_task()
    missing: Entry = {"task": chief.name, "address": chief.address, "reason": reason}
    return rendezvous_error(task.cluster, seconds, missing=[missing])


def gave_up(chief: Task, why: str) -> RendezvousError:
    """Build the error of a chief that ends the rendezvous for a reason of its own."""
    return RendezvousError(
        f"{chief.name}, the chief, gave up: {why}.",
        fix="start all tasks again",
        chief={"task": chief.name, "address": chief.address},
    )


def _who(entry: Entry) -> str:
    return f"{entry['task']} ({entry['host']}, pid {entry['pid']})"


def _missing(entry: Entry, chief: Task) -> str:
    if entry["task"] == chief.name:
        return f"{chief.name}, the chief, can't be reached at {chief.address}: {entry['reason']}"
    text = f"{entry['task']} ({entry['address']}) is missing"
    if "answered_by" in entry:
        text += f": {entry['answered_by']} answers at its address"
    elif "left" in entry:
        text += f": it was here (host {entry['left']['host']}, pid {entry['left']['pid']}) and left"
    return text


def _missing_fix(entries: list[Entry], chief: Task) -> str:
    host, port = split_address(chief.address)
    if entries[0]["task"] == chief.name:
        checks = f"check that {host} is its machine and that port {port} is open there (firewall)"
        return f"start {chief.name}; if it runs, {checks}"
    names = listed([entry["task"] for entry in entries])
    its, it = ("its", "it") if len(entries) == 1 else ("their", "they")
    return (
        f"start {names}, or see in {its} own output why {it} did not arrive: a wrong index, "
        f"a name that does not resolve, a firewall before port {port} of {host}"
    )


def _duplicate(entry: Entry, chief: Task) -> str:
    processes = entry["processes"]
    times = "twice" if len(processes) == 2 else f"{len(processes)} times"
    places = " and ".join(f"{p['host']} (pid {p['pid']})" for p in processes[:MAX_SHOWN])
    return f"{entry['task']} is here {times}: on {places}"


def _different_version(entry: Entry, chief: Task) -> str:
    package = _PACKAGES.get(entry["package"], entry["package"])
    return f"{_who(entry)} has {package} {entry['version']}; {chief.name} has {entry['expected']}"


def _port(entry: Entry, chief: Task) -> str:
    why = entry["reason"]
    if "holder" in entry:
        why = f"taken by {entry['holder']} (pid {entry['holder_pid']})"
    elif why == "taken":
        why = "taken by a process that can't be seen from here (another user's, or another container's)"
    return f"{_who(entry)} can't listen on port {entry['port']}: {why}"


def _port_fix(entries: list[Entry], chief: Task) -> str:
    holders = listed([f"process {e['holder_pid']} on {e['host']}" for e in entries if "holder" in e])
    return f"end {holders}, or give the task another port" if holders else "give the task another port"


def _unreachable_fix(entries: list[Entry], chief: Task) -> str:
    ends = [(*split_address(entry["address"]), entry["from"]) for entry in entries]
    places = [f"port {port} of {host} for {caller}" for host, port, caller in ends]
    return f"open {listed(places)} (firewall, security group, route), and check that the name resolves there"


def _text(template: str) -> Callable[[Entry, Task], str]:
    """Describe an entry by a template with its keys; `who` is its process, and `chief` the chief's name."""

    def describe(entry: Entry, chief: Task) -> str:
        who = _who(entry) if "task" in entry else ""
        what = "; ".join(entry.get("differences") or ()) or "its digest differs"
        return template.format_map({**entry, "who": who, "what": what, "chief": chief.name})

    return describe


#: How each kind of problem is described, and how it is fixed, in the order in which they are shown.
_TEXTS: dict[str, tuple[Callable[[Entry, Task], str], str | Callable[[list[Entry], Task], str]]] = {
    "limits": (
        _text("{who} may open {allowed} files; the rendezvous needs about {needed}"),
        "raise the limit of open files on its machine (`ulimit -n`)",
    ),
    "missing": (_missing, _missing_fix),
    "duplicates": (
        _duplicate,
        "give each process an index of its own: all but one of them have a wrong one",
    ),
    "clusters": (_text("{who} has another cluster than {chief}: {what}"), "give every task the same cluster"),
    "versions": (_different_version, "install the same versions on every machine"),
    "ports": (_port, _port_fix),
    "unreachable": (_text("{from} can't reach {to} at {address}: {reason}"), _unreachable_fix),
    "strangers": (
        _text("a process on {host} called {chief} with {reason}"),
        f"start every task with the same {TOKEN_VARIABLE}; a task of an earlier job may still run",
    ),
}
