"""``tfmuster runs``: list, show, compare, follow, stop, resume and remove runs."""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import EXIT_DONE, EXIT_USAGE, EXIT_WORKER_FAILED, TfmusterError
from ..system.terminal_text import json_text, safe_text, visible
from ..tracking.record.layout import RUNS
from .parameters import Decorator, WholeNumber, option

if TYPE_CHECKING:
    from ..tracking.run import Run


class _OnFiles(click.Group):
    """A group whose verbs name the file that this user can not read or change."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise TfmusterError(
                "You must be able to read and change the files of a run.",
                found=f"{error.filename}: {error.strerror}" if error.filename else str(error),
                fix="Run the command as the user who owns them."
                if isinstance(error, PermissionError)
                else None,
            ) from error


@click.group("runs", cls=_OnFiles)
def runs() -> None:
    """List, show, compare, follow, stop, resume and remove runs.

    RUN is the name of a run, a part of it, or its path. Default: the newest run. If several runs match, the
    newest is used, and `remove` refuses. Runs in other folders are found, too.
    """


_folder = option(
    "--runs PATH",
    "Look in this folder. Default: runs; if no run matches there, all folders of your runs.",
    click.Path(file_okay=False),
    name="folder",
)


def _complete_run(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of runs that begin like a word, for the completion of a shell, newest first."""
    from ..tracking.show import listing

    known = listing.runs() or listing.runs(all=True)
    return [run.name for run in reversed(known) if run.name.startswith(incomplete)]


def _takes_run(*, changes: bool = False) -> Decorator:
    """Declare RUN and ``--runs`` for a verb, which gets the run. `changes`: it stops or resumes the run."""

    def add(verb: Callable[..., object]) -> object:
        @functools.wraps(verb)
        def with_run(*, name: str | None, folder: str | None, **options: object) -> object:
            return verb(_found(name, folder, changes=changes), **options)

        argument = click.argument("name", metavar="[RUN]", required=False, shell_complete=_complete_run)
        return argument(_folder(with_run))

    return add


def _found(name: str | None, folder: str | None, *, changes: bool) -> Run:
    """Return the run of this name. Whoever gives a part of it on a terminal to change a run is asked."""
    from ..tracking.run import Run
    from ..tracking.show.listing import find_run

    try:
        return find_run(name, folder, changes=changes)
    except TfmusterError as error:
        meant = str(error.fields.get("run"))
        if error.fields.get("reason") != "part-of-name" or not sys.stdin.isatty():
            raise
        if not click.confirm(f"{error.found}. Do you mean {visible(meant)}?", err=True):
            raise
        return Run(meant)


@runs.command("list")
@_folder
@option("-a, --all", "List your runs in all folders. Default: those in the folder runs.", name="everywhere")
@option("--limit N", "List at most N runs. Default: all.", WholeNumber(min=1))
@option("--state STATE", "List only runs in this state, such as failed. Default: in any.")
@option("--name PART", "List only runs with this in their names. Default: all.")
@option("--since AGE", "List only runs that started at most so long ago: 12h, 30d or 8w. Default: all.")
@option(
    "--json",
    "Print a JSON object with the state and last metrics of each run. Default: a table.",
    name="as_json",
)
def list_runs(folder: str | None, everywhere: bool, as_json: bool, **wanted: Any) -> None:
    """List runs, newest first: those in the folder runs or, if it has none, yours in all folders."""
    from ..tracking.record.recording import Documents
    from ..tracking.show.listing import newest_runs, run_columns
    from ..tracking.show.summary import glance_row

    chosen = newest_runs(folder, all=everywhere, **wanted)
    if not chosen and folder is None and not everywhere and not newest_runs(limit=1):
        chosen, everywhere = newest_runs(all=True, **wanted), True
        if chosen:
            click.echo("No runs in runs. Your runs in other folders:", err=True)
    if as_json:
        click.echo(json_text({str(run.path): glance_row(run) for run in chosen}))
        return
    if not chosen:
        fitting = " that fit" if any(wanted.values()) else ""
        click.echo(visible(f"No runs{fitting} in {folder or 'runs'}."))
        if wanted["state"] and (others := newest_runs(folder, all=everywhere)):
            # The state may be misspelled.
            there = dict.fromkeys(str(run.status()["state"]) for run in others)
            click.echo(visible(f"The states of those that are there: {', '.join(there)}"), err=True)
        return
    odd: list[str] = []

    def each_with_files() -> Iterator[Documents]:
        # What was read of thousands of runs is not kept.
        for run in chosen:
            yield (documents := Documents(run.path))
            if names := documents.unreadable():
                odd.append(f"{run.name}: can't read {names}")

    _print_table(run_columns(each_with_files(), paths=everywhere))
    for text in odd:
        click.echo(visible(text), err=True)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts in columns; the last columns of a row may be missing."""
    widths = [max(map(len, column)) for column in itertools.zip_longest(*rows, fillvalue="")]
    padded = (map(str.ljust, row, widths) for row in rows)
    # At once: a write for each of thousands of runs takes a while.
    click.echo("\n".join(visible("  ".join(texts)) for texts in padded))


@runs.command()
@_takes_run()
@option("--json", "Print everything as JSON. Default: a summary.", name="as_json")
def show(run: Run, as_json: bool) -> None:
    """Show the command of a run, its progress, how workers read their input, and its first failure."""
    from ..tracking.show.summary import document, summary

    if as_json:
        click.echo(json_text(document(run)))
        return
    for label, value in summary(run).items():
        click.echo(safe_text(f"{label + ':':<15}{value}"))


@runs.command()
@click.argument("names", metavar="RUN RUN...", nargs=-1, required=True, shell_complete=_complete_run)
@_folder
@option("--html FILE", "Write a page with the curves of all runs to this file. Default: write none.")
@option("--json", "Print a JSON object. Default: tables.", name="as_json")
def compare(names: tuple[str, ...], folder: str | None, html: str | None, as_json: bool) -> None:
    """Compare runs: the settings that differ, and the last and best value of each metric."""
    from ..tracking.show.comparison import compare_runs, tables

    comparison = compare_runs([_found(name, folder, changes=False) for name in names], html)
    if as_json:
        click.echo(json_text(comparison))
        return
    for title, rows in tables(comparison).items():
        _print_table([[title, *comparison["runs"]], *(rows or [["none"]])])


@runs.command()
@_takes_run()
@option("-f, --follow", "Keep printing new lines until the run has ended. Default: stop at the last line.")
@option("--task TASK", 'Show only one task, such as "worker 0". Default: all tasks.')
@option("--lines N", "Show only the last N lines of each task. Default: all lines.", WholeNumber(min=0))
@option(
    "--all-output",
    "Show each line of each worker. Default: show lines that all workers print alike once.",
)
def logs(run: Run, follow: bool, task: str | None, lines: int | None, all_output: bool) -> None:
    """Show the output of the workers, each line with the worker's name."""
    from ..tracking.show.tail import each_log_line, follow_lines

    shown = (
        follow_lines(run, task, all_output=all_output)
        if follow
        else each_log_line(run, task, lines=lines, all_output=all_output)
    )
    for line in shown:
        click.echo(line)


@runs.command()
@_takes_run()
@option("--json", "Print a JSON object with the text of each task. Default: text.", name="as_json")
def stacks(run: Run, as_json: bool) -> int:
    """Show where the program of each worker is: its Python stacks, and R's calls if known.

    A run that has stalled keeps the stacks in `stacks/` of its run directory.
    """
    texts = run.stacks()
    if as_json:
        click.echo(json_text(texts))
    else:
        for text in texts.values():
            click.echo(safe_text(text))
        if not texts:
            click.echo(visible(f"{run.name}: no worker has told its stacks"))
    return EXIT_DONE if texts else EXIT_WORKER_FAILED


@runs.command()
@_takes_run()
@option(
    "-o, --output PATH",
    "Write to this file. Default: report.html in the run directory.",
    click.Path(dir_okay=False),
)
def report(run: Run, output: str | None) -> None:
    """Write one HTML page: summary, cluster, curves, timeline, output, environment, first failure."""
    from ..tracking.show.report import write_report

    click.echo(visible(write_report(run, output)))


@runs.command()
@_takes_run(changes=True)
@option("--save", "Let all workers write a checkpoint first. Default: stop at once.")
def stop(run: Run, save: bool) -> int:
    """Stop a run and all its processes.

    RUN is its full name or, in the folder runs, its --name. A terminal asks about a part of it.
    """
    state = run.stop(save=save)["state"]
    click.echo(visible(f"{run.name}: {state}"))
    return EXIT_WORKER_FAILED if state in ("starting", "running") else EXIT_DONE


@runs.command()
@_takes_run(changes=True)
@option("--detach", "Return when the workers run; `tfmuster runs` follows them. Default: wait for the end.")
def resume(run: Run, detach: bool) -> int:
    """Restart a run that was preempted, interrupted or lost, or has failed, with its original options.

    It keeps its run directory. A program with checkpoint_callback() resumes from its newest checkpoint. RUN
    is its full name or, in the folder runs, its --name. A terminal asks about a part of it.
    """
    from ..tracking.lifecycle.resuming import relaunch_of
    from .launch import launch

    relaunch = relaunch_of(run.path)
    os.environ.update(relaunch.env)
    os.chdir(relaunch.directory)
    arguments = ["--detach", *relaunch.arguments] if detach else relaunch.arguments
    code: int = launch.main(arguments, "tfmuster launch", standalone_mode=False)
    return code


@runs.command()
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=_complete_run)
@_folder
@option(
    "--older-than AGE",
    "Remove all your runs that ended longer ago: 12h, 30d or 8w. Default: remove the named runs.",
)
def remove(names: tuple[str, ...], folder: str | None, older_than: str | None) -> int:
    """Remove runs of yours from the disk: the named ones, or those that ended some time ago.

    Files that tfmuster has not written stay. RUN is a full name or, in the folder runs, a --name. A terminal
    asks about a part of it.
    """
    from ..tracking.show.listing import ended_before

    if bool(names) == (older_than is not None):
        raise click.UsageError("Name the runs to remove, or give --older-than.")
    old = (
        [_found(name, folder, changes=True) for name in names]
        if older_than is None
        else ended_before(older_than, folder or RUNS)
    )
    code = EXIT_DONE
    for run in old:
        try:
            remaining = run.remove()
        except (OSError, TfmusterError) as error:
            if len(old) == 1:
                raise
            # The other runs can be removed nevertheless.
            why = error.found if isinstance(error, TfmusterError) else error.strerror
            click.echo(visible(f"{run.name}: not removed: {why}"), err=True)
            code = EXIT_USAGE
            continue
        click.echo(
            visible(f"{run.name}: removed" + ("" if not remaining else f", but for {', '.join(remaining)}"))
        )
    return code
