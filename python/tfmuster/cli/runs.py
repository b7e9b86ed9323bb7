"""``tfmuster runs``: list, show and follow runs. The verbs that change a run are in :mod:`.runs_changing`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import EXIT_DONE, EXIT_WORKER_FAILED, TfmusterError
from ..system.terminal_text import json_text, safe_text, visible
from .runs_changing import FOLDER, RUN, remove, resume, stop


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

    RUN is the name of a run, a unique part of it, or its path. Default: the newest run.
    """


@command.command("list")
@FOLDER
def list_runs(folder: str) -> None:
    """List all runs, oldest first."""
    from ..runs.listing import run_table
    from ..runs.records import unreadable

    table = run_table(folder)
    rows = [(row["name"], row["state"], f"{row['tasks']} tasks", row["progress"]) for row in table]
    if not rows:
        click.echo(visible(f"No runs in {folder}."))
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for row in rows:
        click.echo(visible("  ".join(t.ljust(width) for t, width in zip(row, widths, strict=True))))
    for run in table:
        if odd := unreadable(Path(run["path"])):
            click.echo(visible(f"{run['name']}: can't read {odd}"), err=True)


@command.command()
@RUN
@FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(name: str | None, folder: str, as_json: bool) -> None:
    """Show the command of a run, its progress, how workers read their input, and its first failure."""
    from ..runs.listing import document, find_run, summary

    run = find_run(name, folder)
    if as_json:
        click.echo(json_text(document(run)))
        return
    for label, value in summary(run).items():
        click.echo(safe_text(f"{label + ':':<15}{value}"))


@command.command()
@RUN
@FOLDER
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the run has ended.")
@click.option("--task", help='Show only one task, such as "worker 0".')
@click.option(
    "--lines", metavar="N", type=click.IntRange(min=0), help="Show only the last N lines of each task."
)
def logs(name: str | None, folder: str, follow: bool, task: str | None, lines: int | None) -> None:
    """Show the output of the workers, each line with the worker's name."""
    from ..runs.listing import find_run
    from ..runs.tail import each_log_line, follow_lines

    run = find_run(name, folder)
    for line in follow_lines(run, task) if follow else each_log_line(run, task, lines=lines):
        click.echo(line)


@command.command()
@RUN
@FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the text of each task.")
def stacks(name: str | None, folder: str, as_json: bool) -> int:
    """Show where the program of each worker is: its Python stacks, and R's calls if known.

    A run that has stalled keeps the stacks in `stacks/` of its run directory.
    """
    from ..runs.listing import find_run

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
    help="File to write. Default: report.html in the run directory.",
)
def report(name: str | None, folder: str, output: str | None) -> None:
    """Write one HTML page: summary, cluster, curves, timeline, output, environment, first failure."""
    from ..runs.listing import find_run
    from ..runs.report import write_report

    click.echo(visible(write_report(find_run(name, folder), output)))


for verb in (stop, resume, remove):
    command.add_command(verb)
