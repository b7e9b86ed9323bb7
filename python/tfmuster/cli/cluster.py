"""``tfmuster config`` and ``check``, and the options that name a cluster and a task, for ``train``, too."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from ..cluster.findings import Findings
from ..cluster.rules import JOBS
from ..cluster.spec import raise_findings
from ..cluster.tf_config import tf_config_texts, use_tf_config
from ..errors import EXIT_DONE, EXIT_USAGE, ClusterError
from ..system.terminal_text import json_text
from .parameters import Number, OneOf, all_of, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cluster.check import Report
    from ..cluster.spec import Cluster, Task

#: What an option of a job adds, with its article.
_ROLES = {"chief": "a chief", "worker": "a worker", "ps": "a parameter server", "evaluator": "an evaluator"}

cluster_options = all_of(
    option(
        "--cluster FILE",
        "Read the cluster from a JSON or YAML file; - reads standard input. Default: TF_CONFIG.",
        name="cluster_file",
    ),
    option(
        "--type JOB",
        "Set the job of this task, such as worker. Default: that in TF_CONFIG.",
        name="task_type",
    ),
    option(
        "--index N",
        "Set the index of this task in its job, from 0. Default: that in TF_CONFIG.",
        name="task_index",
    ),
    *(
        option(
            f"--{job} HOST:PORT",
            f"Add {_ROLES[job]} with this address; repeatable. Default: none.",
            multiple=True,
        )
        for job in JOBS
    ),
)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


FORMATS: dict[str, Callable[[str], str]] = {
    "json": str,
    "shell": lambda text: f"export TF_CONFIG={shlex.quote(text)}",
    "r": lambda text: f"Sys.setenv(TF_CONFIG = {_quoted(text)})",
    "dotenv": lambda text: f"TF_CONFIG={_quoted(text)}",
}


@click.command("config")
@cluster_options
@option("--all", "Print the text of every task of the cluster. Default: that of one task.", name="all_tasks")
@option(
    "--format",
    "Print JSON, an export line for a shell, a Sys.setenv call for R, or a line for a .env file.",
    OneOf(list(FORMATS)),
    name="form",
    default="json",
)
@option("--pretty", "Indent the JSON. Default: one line.")
def config(*, all_tasks: bool, form: str, pretty: bool, **cluster_arguments: Any) -> None:
    """Print the TF_CONFIG of one task, or of all tasks.

    \b
    tfmuster config --worker a:2222 --worker b:2222 --type worker --index 1
    eval "$(tfmuster config --cluster cluster.json --type worker --index 0 --format shell)"
    """
    if all_tasks and (cluster_arguments["task_type"] or cluster_arguments["task_index"]):
        raise click.UsageError("Give either --all, or --type and --index.")
    cluster, task = _read_cluster(**cluster_arguments)
    if not all_tasks and not task:
        findings = Findings()
        findings.note("task-missing", "task", fix="add --type and --index, or --all")
        raise_findings(findings)
    tasks = (task,) if task and not all_tasks else cluster.tasks()
    lines = []
    for each_task, text in zip(tasks, tf_config_texts(tasks, pretty=pretty), strict=True):
        # JSON has no comments. The other formats need them to show which line belongs to which task.
        if all_tasks and form != "json":
            lines.append(f"# {each_task}")
        lines.append(FORMATS[form](text))
    click.echo("\n".join(lines))


@click.command("check")
@click.argument("file", required=False)
@cluster_options
@option("--connect", "Also try to reach every address. Default: check the description only.")
@option(
    "--timeout SECONDS",
    "With --connect: wait this long for each address.",
    Number(min=0, min_open=True),
    default=3.0,
)
@option("--json", "Print the report as JSON. Default: as text.", name="as_json")
def check(*, file: str | None, as_json: bool, **arguments: Any) -> int:
    """Check a cluster description, and exit with 2 if it has an error. FILE is the same as --cluster FILE.

    \b
    tfmuster check cluster.json
    tfmuster check --worker a:2222 --worker b:2222 --connect
    TF_CONFIG='{...}' tfmuster check
    """
    if file is not None:
        if arguments["cluster_file"] is not None:
            raise click.UsageError("Give the file of a cluster once: as FILE, or with --cluster.")
        arguments["cluster_file"] = file
    report = _report(**arguments)
    click.echo(json_text(report.to_dict()) if as_json else str(report))
    return EXIT_DONE if report.ok else EXIT_USAGE


def join_cluster(**cluster_arguments: Any) -> None:
    """Set TF_CONFIG from `cluster_options`. Raises ClusterError if they name no task, or a wrong cluster."""
    _, task = _read_cluster(**cluster_arguments)
    if task is None:
        raise ClusterError(
            "This process has to know which task of the cluster it is.",
            fix="add --type and --index, such as --type worker --index 0",
            findings=[],
        )
    use_tf_config(task)


def _report(
    *, cluster_file: str | None, task_type: str | None, task_index: str | None, **more: Any
) -> Report:
    """Check the cluster that `cluster_options` describe. `more` has addresses and arguments of the check."""
    from ..cluster.check import check_cluster

    index: Any = task_index  # a wrong text is for the check to report
    if index is not None and index.isascii() and index.removeprefix("-").isdigit() and len(index) <= 18:
        index = int(index)
    return check_cluster(cluster_file, type=task_type, index=index, **more)


def _read_cluster(**cluster_arguments: Any) -> tuple[Cluster, Task | None]:
    """Return the cluster, and the task if one is named. Repairs go to standard error."""
    report = _report(**cluster_arguments)
    raise_findings(report.findings)
    for finding in report.warnings:
        click.echo(str(finding), err=True)
    assert report.cluster is not None  # there was no error
    return report.cluster, report.task
