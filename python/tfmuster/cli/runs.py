"""``tfmuster runs``: list, show and follow runs. The verbs that change a run are in :mod:`.runs_changing`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ..errors import EXIT_DONE, EXIT_WORKER_FAILED, TfmusterError
from ..system.terminal_text import json_text, safe_text, visible
from .runs_changing import FOLDER, RUN, remove, resume, stop
from .value_types import WholeNumber


class _OnFiles(click.Group):
    """A group whose verbs work on files that may be another user's, or of which something else has become."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise TfmusterError(
                "The files of a run must be such that you can use them.",
                found=f"{error.filename}: {error.strerror}" if error.filename else str(error),
                fix="Do it as the user who owns them." if isinstance(error, PermissionError) else None,
            ) from error


@click.group("runs", cls=_OnFiles)
def command() -> None:
    """List, show, follow, stop, resume and remove runs.

    RUN is the name of a run, a part of it, or its path. Default: the newest run. If several runs match, the
    newest is used, and `remove` refuses. Runs in other folders are found, too.
    """


@command.command("list")
@FOLDER
@click.option(
    "-a",
    "--all",
    "everywhere",
    is_flag=True,
    help="List your runs in all folders. Default: those in the folder runs.",
)
def list_runs(folder: str | None, everywhere: bool) -> None:
    """List runs, oldest first: those in the folder runs or, if it has none, yours in all folders."""
    from ..tracking.record.recording import unreadable
    from ..tracking.show.listing import run_table

    table = run_table(folder, all=everywhere)
    if not table and folder is None and not everywhere:
        table, everywhere = run_table(all=True), True
        if table:
            click.echo("No runs in runs. Your runs in other folders:", err=True)
    if not table:
        click.echo(visible(f"No runs in {folder or 'runs'}."))
        return
    rows = [_row(run, everywhere) for run in table]
    head = ("run", "state", "started", "took", "tasks", "speed", "progress")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        shown = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        click.echo(visible(shown.rstrip()))
    for run in table:
        if odd := unreadable(Path(run["path"])):
            click.echo(visible(f"{run['name']}: can't read {odd}"), err=True)


def _row(run: dict[str, str], everywhere: bool) -> tuple[str, ...]:
    name = run["path"] if everywhere else run["name"]
    # The column before has the speed.
    progress = re.sub(r"  [\d,]+ images/s$", "", run["progress"]) if run["speed"] else run["progress"]
    return (name, run["state"], run["local"], run["took"], run["tasks"], run["speed"], progress)


@command.command()
@RUN
@FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON. Default: a summary.")
def show(name: str | None, folder: str | None, as_json: bool) -> None:
    """Show the command of a run, its progress, how workers read their input, and its first failure."""
    from ..tracking.show.listing import find_run
    from ..tracking.show.summary import document, summary

    run = find_run(name, folder)
    if as_json:
        click.echo(json_text(document(run)))
        return
    for label, value in summary(run).items():
        click.echo(safe_text(f"{label + ':':<15}{value}"))


@command.command()
@RUN
@FOLDER
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Keep printing new lines until the run has ended. Default: stop at the last line.",
)
@click.option("--task", metavar="TASK", help='Show only one task, such as "worker 0". Default: all tasks.')
@click.option(
    "--lines",
    metavar="N",
    type=WholeNumber(min=0),
    help="Show only the last N lines of each task. Default: all lines.",
)
def logs(name: str | None, folder: str | None, follow: bool, task: str | None, lines: int | None) -> None:
    """Show the output of the workers, each line with the worker's name."""
    from ..tracking.show.listing import find_run
    from ..tracking.show.tail import each_log_line, follow_lines

    run = find_run(name, folder)
    for line in follow_lines(run, task) if follow else each_log_line(run, task, lines=lines):
        click.echo(line)


@command.command()
@RUN
@FOLDER
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object with the text of each task. Default: text."
)
def stacks(name: str | None, folder: str | None, as_json: bool) -> int:
    """Show where the program of each worker is: its Python stacks, and R's calls if known.

    A run that has stalled keeps the stacks in `stacks/` of its run directory.
    """
    from ..tracking.show.listing import find_run

    run = find_run(name, folder)
    texts = run.stacks()
    if as_json:
        click.echo(json_text(texts))
    else:
        for text in texts.values():
            click.echo(safe_text(text))
        if not texts:
            click.echo(visible(f"{run.name}: no worker has told its stacks"))
    return EXIT_DONE if texts else EXIT_WORKER_FAILED


@command.command()
@RUN
@FOLDER
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Write to this file. Default: report.html in the run directory.",
)
def report(name: str | None, folder: str | None, output: str | None) -> None:
    """Write one HTML page: summary, cluster, curves, timeline, output, environment, first failure."""
    from ..tracking.show.listing import find_run
    from ..tracking.show.report import write_report

    click.echo(visible(write_report(find_run(name, folder), output)))


for verb in (stop, resume, remove):
    command.add_command(verb)
