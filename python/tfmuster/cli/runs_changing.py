"""``tfmuster runs stop``, ``resume`` and ``remove``."""

from __future__ import annotations

import os

import click

from ..errors import EXIT_DONE, EXIT_USAGE, EXIT_WORKER_FAILED, TfmusterError
from ..system.terminal_text import visible
from ..tracking.record.layout import RUNS

FOLDER = click.option(
    "--runs",
    "folder",
    metavar="PATH",
    type=click.Path(file_okay=False),
    help="Look in this folder. Default: runs; if no run matches there, all folders of your runs.",
)


def complete_run(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of runs that begin like a word, for the completion of a shell, newest first."""
    from ..tracking.show.listing import runs

    known = runs() or runs(all=True)
    return [run.name for run in reversed(known) if run.name.startswith(incomplete)]


RUN = click.argument("name", metavar="[RUN]", required=False, shell_complete=complete_run)


@click.command()
@RUN
@FOLDER
@click.option("--save", is_flag=True, help="Let all workers write a checkpoint first. Default: stop at once.")
def stop(name: str | None, folder: str | None, save: bool) -> int:
    """Stop a run and all its processes.

    A run in another folder is found by its full name only.
    """
    from ..tracking.show.listing import find_run

    run = find_run(name, folder, changes=True)
    state = run.stop(save=save)["state"]
    click.echo(visible(f"{run.name}: {state}"))
    return EXIT_WORKER_FAILED if state in ("starting", "running") else EXIT_DONE


@click.command()
@RUN
@FOLDER
@click.option(
    "--detach",
    is_flag=True,
    help="Return when the workers run; `tfmuster runs` follows them. Default: wait for the end.",
)
def resume(name: str | None, folder: str | None, detach: bool) -> int:
    """Restart a run that was preempted, interrupted or lost, or has failed, with its original options.

    It keeps its run directory. A program with checkpoint_callback() resumes from its newest checkpoint. A run
    in another folder is found by its full name only.
    """
    from ..tracking.lifecycle.resuming import relaunch_of
    from ..tracking.show.listing import find_run
    from .launch import command as launch

    relaunch = relaunch_of(find_run(name, folder, changes=True).path)
    os.environ.update(relaunch.env)
    os.chdir(relaunch.directory)
    arguments = ["--detach", *relaunch.arguments] if detach else relaunch.arguments
    code: int = launch.main(arguments, "tfmuster launch", standalone_mode=False)
    return code


@click.command()
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=complete_run)
@FOLDER
@click.option(
    "--older-than",
    metavar="AGE",
    help="Remove all your runs that ended longer ago: 12h, 30d or 8w. Default: remove the named runs.",
)
def remove(names: tuple[str, ...], folder: str | None, older_than: str | None) -> int:
    """Remove runs of yours from the disk: the named ones, or those that ended some time ago.

    Files that tfmuster has not written stay. A run in another folder is found by its full name only.
    """
    from ..tracking.show.listing import ended_before, find_run

    if bool(names) == (older_than is not None):
        raise click.UsageError("Name the runs to remove, or give --older-than.")
    runs = (
        [find_run(name, folder, single=True, changes=True) for name in names]
        if names
        else ended_before(older_than or "", folder or RUNS)
    )
    code = EXIT_DONE
    for run in runs:
        try:
            left = run.remove()
        except (OSError, TfmusterError) as error:
            if len(runs) == 1:
                raise
            # The other runs can be removed nevertheless.
            why = error.found if isinstance(error, TfmusterError) else error.strerror
            click.echo(visible(f"{run.name}: not removed: {why}"), err=True)
            code = EXIT_USAGE
            continue
        click.echo(visible(f"{run.name}: removed" + (f", but for {', '.join(left)}" if left else "")))
    return code
