"""TF_CONFIG: the JSON text by which TensorFlow learns the cluster and its own place in it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import orjson

from ..errors import ClusterError, TfmusterError
from .findings import Findings
from .rules import examine_document
from .spec import Cluster, Task, raise_or_warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Linux gives a new process at most 32 pages for one variable with its name and its end (execve(2)).
LONGEST_IN_ENVIRONMENT = 32 * 4096 - len("TF_CONFIG=") - 1


def tf_config_json(task: Task, *, pretty: bool = False) -> str:
    """The TF_CONFIG text of one task.

    Parameters
    ----------
    task : Task
        Whose text to make.
    pretty : bool
        Indent by two blanks, for reading; compact otherwise.

    Returns
    -------
    str
        JSON with the keys ``cluster`` and ``task``, in this order, and the jobs in the order of
        :data:`~tfmuster.cluster.spec.JOBS`.

    Examples
    --------
    >>> tf_config_json(Cluster(worker=["a:1", "b:1"]).task("worker", 1))
    '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'
    """
    return next(tf_config_texts([task], pretty=pretty))


def tf_config_texts(tasks: Iterable[Task], *, pretty: bool = False) -> Iterator[str]:
    """The TF_CONFIG text of each task; what tasks of one cluster have in common is written only once."""
    option = orjson.OPT_INDENT_2 if pretty else 0
    # An object's last characters, and its first, which both parts lose where they are joined.
    closing, opening = (2, 1) if pretty else (1, 1)
    cluster: Cluster | None = None
    head = ""
    for task in tasks:
        if task.cluster is not cluster:
            cluster = task.cluster
            head = orjson.dumps({"cluster": cluster.jobs}, option=option)[:-closing].decode() + ","
        yield head + orjson.dumps({"task": task.to_dict()}, option=option)[opening:].decode()


def parse_tf_config(text: str | bytes) -> Task:
    """The task that a TF_CONFIG text describes, with its cluster.

    A lone address in place of a list and an index written as text are repaired, with a
    :class:`~tfmuster.errors.TfmusterWarning`.

    Raises
    ------
    ClusterError
        With every finding at once in the field ``findings``.
    """
    from .documents import parse_document

    found = Findings()
    document = parse_document(text, found)
    place = None
    if not found.failed:
        jobs, place = examine_document(document, found, cluster_key_needed=True, task_wanted="yes")
    raise_or_warn(found)
    assert place is not None  # examine_document has found an error otherwise
    return Task.of_checked(*place, Cluster.of_checked(jobs))


def use_tf_config(task: Task) -> str:
    """Put a task's TF_CONFIG in force for this process and for those that it starts.

    Call it before a strategy is made: TensorFlow reads TF_CONFIG only then. From R, call R's function of the
    same name; ``Sys.setenv`` doesn't reach a Python that is already running.

    Returns
    -------
    str
        The text.
    """
    text = tf_config_json(task)
    found = Findings()
    note_if_too_long(text, found)
    raise_or_warn(found)
    os.environ["TF_CONFIG"] = text
    return text


def current_task(environ: Mapping[str, str] | None = None) -> Task | None:
    """The task that TF_CONFIG names; None if TF_CONFIG is unset, blank or ``{}``: then this is no cluster.

    Raises
    ------
    ClusterError
        If TF_CONFIG can't be used.
    """
    text = (os.environ if environ is None else environ).get("TF_CONFIG", "").strip()
    try:
        return None if text in ("", "{}") else parse_tf_config(text)
    except ClusterError as error:
        # Who did not write it has to learn where it stands.
        error.message = error.message.replace(
            "The cluster description", "The environment variable TF_CONFIG", 1
        )
        error.fix = f"{error.fix}; or unset TF_CONFIG" if error.fix else "or unset TF_CONFIG, to be alone"
        raise


def note_if_too_long(text: str, found: Findings) -> None:
    """Warn of a TF_CONFIG that no child process can be given in its environment."""
    if len(text) > LONGEST_IN_ENVIRONMENT:
        found.note("too-long-for-environment", "TF_CONFIG", f"{len(text)} bytes")


def is_chief() -> bool:
    """Whether this process is the chief of its cluster, or alone."""
    with contextlib.suppress(TfmusterError):
        task = current_task()
        return task is None or task.is_chief
    return False
