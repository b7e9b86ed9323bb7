"""``tfmuster config``: print the TF_CONFIG of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..cluster.findings import Findings
from ..cluster.spec import raise_findings
from ..cluster.tf_config import tf_config_texts
from .cluster_options import cluster_options, read_cluster
from .value_types import OneOf

if TYPE_CHECKING:
    from collections.abc import Callable


def _shell(text: str) -> str:
    import shlex

    return f"export TF_CONFIG={shlex.quote(text)}"


def _r(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"Sys.setenv(TF_CONFIG = '{escaped}')"


def _dotenv(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"TF_CONFIG='{escaped}'"


_FORMATS: dict[str, Callable[[str], str]] = {"json": str, "shell": _shell, "r": _r, "dotenv": _dotenv}


@click.command("config")
@cluster_options
@click.option(
    "--all",
    "all_tasks",
    is_flag=True,
    help="Print the text of every task of the cluster. Default: that of one task.",
)
@click.option(
    "--format",
    "form",
    type=OneOf(list(_FORMATS)),
    default="json",
    show_default=True,
    help="Print JSON, an export line for a shell, a Sys.setenv call for R, or a line for a .env file.",
)
@click.option("--pretty", is_flag=True, help="Indent the JSON. Default: one line.")
def command(*, all_tasks: bool, form: str, pretty: bool, **cluster_arguments: Any) -> None:
    """Print the TF_CONFIG of one task, or of all tasks.

    \b
    tfmuster config --worker a:2222 --worker b:2222 --type worker --index 1
    eval "$(tfmuster config --cluster cluster.json --type worker --index 0 --format shell)"
    """
    if all_tasks and (cluster_arguments["task_type"] or cluster_arguments["task_index"]):
        raise click.UsageError("Give either --all, or --type and --index.")
    cluster, task = read_cluster(**cluster_arguments)
    if not all_tasks and not task:
        found = Findings()
        found.note("task-missing", "task", fix="add --type and --index, or --all")
        raise_findings(found)
    tasks = (task,) if task and not all_tasks else cluster.tasks()
    write = _FORMATS[form]
    lines = []
    for each, text in zip(tasks, tf_config_texts(tasks, pretty=pretty), strict=True):
        # JSON has no comments. The other formats need them to show which line belongs to which task.
        if all_tasks and form != "json":
            lines.append(f"# {each}")
        lines.append(write(text))
    click.echo("\n".join(lines))
