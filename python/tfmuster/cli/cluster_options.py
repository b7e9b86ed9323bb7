"""Options that name the cluster and the task, shared by several verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..cluster.rules import JOBS
from ..errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cluster.spec import Cluster, Task

#: What an option of a job adds, with its article.
_ROLES = {"chief": "a chief", "worker": "a worker", "ps": "a parameter server", "evaluator": "an evaluator"}
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def cluster_options(command: _Command) -> _Command:
    """Add ``--worker``, ``--ps``, ``--chief``, ``--evaluator``, ``--cluster``, ``--type`` and ``--index``."""
    for job in reversed(JOBS):
        command = click.option(
            f"--{job}",
            multiple=True,
            metavar="HOST:PORT",
            help=f"Add {_ROLES[job]} with this address; repeatable. Default: none.",
        )(command)
    options = [
        click.option(
            "--cluster",
            "cluster_file",
            metavar="FILE",
            help="Read the cluster from a JSON or YAML file; - reads standard input. Default: TF_CONFIG.",
        ),
        click.option(
            "--type",
            "task_type",
            metavar="JOB",
            help="Set the job of this task, such as worker. Default: that in TF_CONFIG.",
        ),
        click.option(
            "--index",
            "task_index",
            metavar="N",
            help="Set the index of this task in its job, from 0. Default: that in TF_CONFIG.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def as_index(text: str | None) -> int | str | None:
    """Return the number in an option's text, or the text itself, which the checks then report."""
    if text is not None and text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 18:
        return int(text)
    return text


def read_cluster(
    *,
    cluster_file: str | None,
    worker: tuple[str, ...],
    ps: tuple[str, ...],
    chief: tuple[str, ...],
    evaluator: tuple[str, ...],
    task_type: str | None,
    task_index: str | None,
) -> tuple[Cluster, Task | None]:
    """Read the cluster, and the task if one is named, from these options. Repairs go to standard error.

    Raises
    ------
    ClusterError
        The cluster is unusable. The field ``findings`` lists all findings.
    """
    from ..cluster.check import check_cluster
    from ..cluster.spec import raise_findings

    report = check_cluster(
        cluster_file,
        worker=worker,
        ps=ps,
        chief=chief,
        evaluator=evaluator,
        type=task_type,
        index=as_index(task_index),  # type: ignore[arg-type]  # a wrong text is for the check to report
    )
    raise_findings(report.findings)
    for finding in report.warnings:
        click.echo(str(finding), err=True)
    assert report.cluster is not None  # there was no error
    return report.cluster, report.task


def join_cluster(**cluster_arguments: Any) -> None:
    """Set TF_CONFIG to the task that these options name.

    Raises
    ------
    ClusterError
        The options name no task, or the cluster is wrong.
    """
    from ..cluster.tf_config import use_tf_config

    _, task = read_cluster(**cluster_arguments)
    if task is None:
        raise ClusterError(
            "This process has to know which task of the cluster it is.",
            fix="add --type and --index, such as --type worker --index 0",
            findings=[],
        )
    use_tf_config(task)
