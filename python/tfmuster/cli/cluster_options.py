"""The options by which every verb is told the cluster and the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..cluster.rules import JOBS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cluster.spec import Cluster, Task

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def cluster_options(command: _Command) -> _Command:
    """Add ``--worker``, ``--ps``, ``--chief``, ``--evaluator``, ``--cluster``, ``--type`` and ``--index``."""
    for job in reversed(JOBS):
        command = click.option(
            f"--{job}",
            multiple=True,
            metavar="HOST:PORT",
            help=f"Address of the next {job}; may be repeated.",
        )(command)
    options = [
        click.option(
            "--cluster",
            "cluster_file",
            metavar="FILE",
            help="JSON or YAML file of the cluster; - is standard input. TF_CONFIG if nothing is given.",
        ),
        click.option("--type", "task_type", metavar="JOB", help="This task's job, such as worker."),
        click.option("--index", "task_index", metavar="N", help="This task's index in its job, from 0."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def as_index(text: str | None) -> int | str | None:
    """The number in an option's text; the text itself if there is none, for the checks to name."""
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
    """The cluster, and the task if one is named, of these options; standard error tells of repairs.

    Raises
    ------
    ClusterError
        With every finding in the field ``findings``.
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
