"""``tfmuster runs``: list, show, follow, examine, stop and remove runs."""

from __future__ import annotations

import click

from ..errors import EXIT_DONE, EXIT_WORKER_FAILED
from ..system.terminal_text import safe_text, visible

_FOLDER = click.option(
    "--runs",
    "folder",
    type=click.Path(file_okay=False),
    default="runs",
    show_default=True,
    help="Folder of the runs.",
)
_RUN = click.argument("name", metavar="[RUN]", required=False)


@click.group("runs")
def command() -> None:
    """List, show, follow, stop and remove runs.

    RUN is the name of a run, a unique part of it, or its path. Default: the newest run.
    """


@command.command("list")
@_FOLDER
def list_runs(folder: str) -> None:
    """List all runs, oldest first."""
    from ..runs.listing import run_table

    rows = [
        (row["name"], row["state"], f"{row['tasks']} tasks", row["progress"]) for row in run_table(folder)
    ]
    if not rows:
        click.echo(f"No runs in {folder}.")
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for row in rows:
        click.echo(visible("  ".join(t.ljust(width) for t, width in zip(row, widths, strict=True))))


@command.command()
@_RUN
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(name: str | None, folder: str, as_json: bool) -> None:
    """Show the command of a run, its progress, how workers read their input, and its first failure."""
    import orjson

    from ..runs.listing import document, find_run, summary

    run = find_run(name, folder)
    if as_json:
        click.echo(orjson.dumps(document(run), option=orjson.OPT_INDENT_2).decode())
        return
    for label, value in summary(run).items():
        click.echo(safe_text(f"{label + ':':<15}{value}"))


@command.command()
@_RUN
@_FOLDER
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
@_RUN
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the text of each task.")
def stacks(name: str | None, folder: str, as_json: bool) -> int:
    """Show where the program of each worker is: its Python stacks, and R's calls if known.

    A run that has stalled keeps the stacks in `stacks/` of its run directory.
    """
    import orjson

    from ..runs.listing import find_run

    run = find_run(name, folder)
    texts = run.stacks()
    if as_json:
        click.echo(orjson.dumps(texts, option=orjson.OPT_INDENT_2).decode())
    else:
        for text in texts.values():
            click.echo(safe_text(text))
        if not texts:
            click.echo(f"{run.name}: no worker has told its stacks")
    return EXIT_DONE if texts else EXIT_WORKER_FAILED


@command.command()
@_RUN
@_FOLDER
@click.option("--save", is_flag=True, help="Let all workers write a checkpoint first, to resume from.")
def stop(name: str | None, folder: str, save: bool) -> int:
    """Stop a run and all its processes."""
    from ..runs.listing import find_run

    run = find_run(name, folder)
    state = run.stop(save=save)["state"]
    click.echo(f"{run.name}: {state}")
    return EXIT_WORKER_FAILED if state in ("starting", "running") else EXIT_DONE


@command.command()
@_RUN
@_FOLDER
@click.option("--detach", is_flag=True, help="Return when the workers run. `tfmuster runs` follows them.")
def resume(name: str | None, folder: str, detach: bool) -> int:
    """Start a run again that was saved, was interrupted or has failed, as it was launched.

    It keeps its run directory, and a program with checkpoint_callback() goes on from its newest checkpoint.
    """
    import os

    from ..runs.listing import find_run
    from ..runs.resuming import launch_again
    from .launch import command as launch

    arguments, directory = launch_again(find_run(name, folder))
    os.chdir(directory)
    code: int = launch.main(
        [*(["--detach"] if detach else []), *arguments], "tfmuster launch", standalone_mode=False
    )
    return code


@command.command()
@click.argument("names", metavar="[RUN]...", nargs=-1)
@_FOLDER
@click.option("--older-than", metavar="AGE", help="Remove all runs that ended longer ago: 12h, 30d or 8w.")
def remove(names: tuple[str, ...], folder: str, older_than: str | None) -> None:
    """Remove runs from the disk: the named ones, or those that ended some time ago."""
    from ..runs.listing import ended_before, find_run

    if bool(names) == (older_than is not None):
        raise click.UsageError("Name the runs to remove, or give --older-than.")
    runs = [find_run(name, folder) for name in names] if names else ended_before(older_than or "", folder)
    for run in runs:
        left = run.remove()
        click.echo(f"{run.name}: removed" + (f", but for {', '.join(left)}" if left else ""))


@command.command()
@_RUN
@_FOLDER
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

    click.echo(write_report(find_run(name, folder), output))
