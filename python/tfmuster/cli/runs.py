"""``tfmuster runs``: list, show, follow and stop runs."""

from __future__ import annotations

from typing import Any

import click

from ..errors import EXIT_DONE, EXIT_WORKER_FAILED

_FOLDER = click.option(
    "--runs",
    "folder",
    type=click.Path(file_okay=False),
    default="runs",
    show_default=True,
    help="Where the runs are.",
)
_RUN = click.argument("name", metavar="[RUN]", required=False)


@click.group("runs")
def command() -> None:
    """List, show, follow and stop runs.

    RUN is a run's name, a part of it that no other has, or its path. Default: the newest.
    """


@command.command("list")
@_FOLDER
def list_runs(folder: str) -> None:
    """List all runs, the oldest first."""
    from ..run_list import table

    rows = [(row["name"], row["state"], f"{row['tasks']} tasks", row["progress"]) for row in table(folder)]
    if not rows:
        click.echo(f"No runs in {folder}.")
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@command.command()
@_RUN
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def show(name: str | None, folder: str, as_json: bool) -> None:
    """Show what was started, how far it is, and the first failure."""
    import orjson

    from ..run_list import find_run, last_epoch

    run = find_run(name, folder)
    info, status, error = run.info(), run.status(), run.error()
    if as_json:
        known = {"path": str(run.path), **info, "status": status, "history": run.history(), "error": error}
        click.echo(orjson.dumps(known, option=orjson.OPT_INDENT_2).decode())
        return
    facts: dict[str, Any] = {
        "run": run.path,
        "state": status["state"],
        "started": info.get("started"),
        "command": " ".join(info.get("command", [])),
        "host": info.get("host"),
        **{task: _task_line(entry) for task, entry in status["tasks"].items()},
        "last epoch": last_epoch(run),
        "model": run.model_path if run.model_path.exists() else None,
    }
    if error:
        how = error["error"] or error["signal"] or f"exit code {error['exit_code']}"
        facts["first failure"] = f"{error['task']} at {error['time']}: {how}"
    for label, value in facts.items():
        if value:
            click.echo(f"{label + ':':<15}{value}")


@command.command()
@_RUN
@_FOLDER
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--task", help='One task only, such as "worker 0".')
@click.option("--lines", type=click.IntRange(min=0), help="Only so many last lines of each.")
def logs(name: str | None, folder: str, follow: bool, task: str | None, lines: int | None) -> None:
    """Show what the workers have written, each line with the worker's name."""
    from ..launch.output import Lines
    from ..run_list import find_run
    from ..runs import follow as follow_run

    run = find_run(name, folder)
    width = max((len(task) for task in run.log_paths()), default=0)
    if not follow:
        for each, text in run.logs(task, lines=lines).items():
            cut = Lines()
            for line in [*cut.feed(text.encode()), *cut.end()]:
                click.echo(f"{each:<{width}} | {line}")
        return
    cuts: dict[str, Lines] = {}
    for each, data in follow_run(run, task):
        for line in cuts.setdefault(each, Lines()).feed(data):
            click.echo(f"{each:<{width}} | {line}")
    for each, rest in cuts.items():
        for line in rest.end():
            click.echo(f"{each:<{width}} | {line}")


@command.command()
@_RUN
@_FOLDER
def stop(name: str | None, folder: str) -> int:
    """End a run and all its processes."""
    from ..run_list import find_run

    run = find_run(name, folder)
    state = run.stop()["state"]
    click.echo(f"{run.name}: {state}")
    return EXIT_WORKER_FAILED if state in ("starting", "running") else EXIT_DONE


def _task_line(entry: dict[str, Any]) -> str:
    code = entry.get("exit_code")
    doing = entry.get("doing")
    text = f"{entry['state']}, process {entry['pid']}" + (f": {doing}" if doing else "")
    return text if code is None else f"{text}, exit code {code}"
