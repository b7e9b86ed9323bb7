"""``tfmuster launch``: run a script or a command on several workers, of this machine or of others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_EVERYONE, EXIT_WORKER_FAILED
from ..options.hints import ABOUT_WORKERS
from ..options.places import BACKENDS, PLACES
from ..options.rows import ADDRESSES, EVERYDAY, FLAG, VARIABLES, WHERE, Option, Settings
from ..options.table import ROWS, Control, Plain, Waiting
from ..system.say import say
from ..system.terminal_text import visible
from .parameters import (
    ENDS_AT_PROGRAM,
    all_of,
    format_groups,
    option,
    program_argument,
    refused,
    row_option,
)

if TYPE_CHECKING:
    from ..launcher.engines.base import Engine
    from ..launcher.job import Job
    from ..tracking.run import Run

#: Whether ``--`` stands before the program, in the context's notes.
_SEPARATED = f"{__name__}.separated"
#: Spans between the recorded phases of a task.
_SPANS = (
    ("interpreter", "started", "importing"),
    ("import of TensorFlow", "importing", "preparing"),
    ("program, to the rendezvous", "preparing", "waiting"),
    ("rendezvous", "waiting", "joined"),
    ("strategy", "joined", "building"),
    ("model and data", "building", "tracing"),
    ("first step", "tracing", "training"),
)


def _names_of(*settings: type[Settings]) -> list[str]:
    """Return the names of the rows of some classes of the table that the command line has."""
    names = dict.fromkeys(name for known in settings for name in known.ROWS)
    return [name for name in names if ROWS[name].flags]


class _Launch(click.Command):
    """A command whose arguments end with a program, maybe after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and remember whether ``--`` stands before the program."""
        words = list(args)
        rest = super().parse_args(ctx, args)
        program = ctx.params.get("program") or ()
        ctx.meta[_SEPARATED] = words[: len(words) - len(program)][-1:] == ["--"]
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        format_groups(self.get_params(ctx), ctx, formatter)


@click.command("launch", cls=_Launch, context_settings=ENDS_AT_PROGRAM)
@all_of(*map(row_option, _names_of(Plain, Control)))
@option(
    "--backend NAME",
    f"Start the processes with this backend: {', '.join(BACKENDS)}. "
    "Default: ssh if there are hosts, else local.",
    group=WHERE,
    shell_complete=lambda *asked: [name for name in BACKENDS if name.startswith(asked[-1])],
)
@all_of(*map(row_option, _names_of(*PLACES, Waiting)))
@option(
    "-m",
    "Run a Python module, as python -m does. Default: run a script or a command.",
    name="module",
    group=EVERYDAY,
)
@program_argument()
def launch(*, program: tuple[str, ...], backend: str | None, module: bool, **options: Any) -> int:
    """Run a script or a command on several workers, of this machine or of others.

    Each worker gets TF_CONFIG and free ports, and runs your .py or .R script. A script without a strategy
    needs --distribute. In the script's arguments, {index}, {type}, {worker_hosts} and {ps_hosts} are replaced
    by each task's values. Each output line is shown with the worker's name, and a line that all print alike
    once; the run directory keeps the unmodified output. The first failure ends the job, is shown last, and
    makes the exit code 1, unless --max-restarts restarts the job.

    \b
    tfmuster launch -n 2 train.py --epochs 3
    tfmuster launch -n 4 train.R
    tfmuster launch -n 2 -m package.train
    tfmuster launch -H node1:2,node2:2 train.R
    tfmuster launch -H node1,node2 --file digits.npz --file layers/ train.py
    tfmuster launch --backend spark --master spark://node1:7077 -n 3 train.R
    tfmuster launch -n 2 -- tfmuster train mnist --steps-per-epoch 0
    """
    from ..launcher.command import MODULE
    from ..launcher.engines.base import engine_for, place_for
    from ..launcher.engines.local import ThisMachine
    from ..system.process_end import SHUTDOWN
    from ..system.processes import adopt_orphans

    refuse_options_after_script(program, options, module=module)
    engine = engine_for(place_for(backend, settings_of(PLACES, options)))
    waiting = Waiting(**settings_of([Waiting], options))
    if waiting.timings and not isinstance(engine, ThisMachine):
        raise click.UsageError("--timings is for workers on this machine.")
    job = engine.job((MODULE, *program) if module else program, **settings_of([Plain, Control], options))
    if waiting.dry_run:
        script = getattr(engine, "script", None)
        if script is None:
            raise click.UsageError("--dry-run is for the backends of batch systems.")
        click.echo(script(job), nl=False)
        return EXIT_DONE
    if not waiting.wait:
        for name in ("timings", "quiet", "only_chief", "all_output"):
            if options[name]:
                raise click.UsageError(f"{ROWS[name].flag} is about output, and --detach shows none.")
        return _start_and_tell(engine, job)
    show = "nothing" if waiting.quiet else job.output
    adopt_orphans()
    # Whichever signal ends the launcher, it must end its workers first.
    SHUTDOWN.take_signals()
    try:
        return _run_and_report(engine, job, show=show, timings=waiting.timings)
    except KeyboardInterrupt:
        click.echo("tfmuster: interrupted; every worker has been ended.", err=True)
        return EXIT_INTERRUPTED


def settings_of(settings: Iterable[type[Settings]], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of the options of some classes of the table, by their names in Python."""
    return {name: _read(ROWS[name], values[name]) for name in _names_of(*settings)}


def _read(row: Option, value: Any) -> Any:
    """Return the value of an option as Python's `launch()` takes it."""
    if row.kind is FLAG:
        return value != row.default
    if row.kind is VARIABLES:
        return dict(map(_variable, value))
    if row.kind is ADDRESSES:
        return {host: address for host, _, address in (text.partition("=") for text in value)}
    return row.default if value is None else value


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals and name in os.environ:
        return name, os.environ[name]
    if not (equals and name):
        raise refused("--env", "NAME=VALUE, or the name of a variable that is set here", text)
    return name, value


def refuse_options_after_script(
    program: tuple[str, ...], options: Mapping[str, object], *, module: bool
) -> None:
    """Raise UsageError if an option about the workers stands after a script or module, and none before.

    Arguments after a script are the script's, so the job would run with two workers on this machine. Whoever
    writes ``--`` before the script, or also names the option there, means the script's. Hosts also say how
    many workers there are.
    """
    script, *arguments = program
    is_program = module or Path(script).suffix.lower() in (".py", ".r")
    if not is_program or click.get_current_context().meta.get(_SEPARATED):
        return
    script = f"-m {script}" if module else script
    if options.get("hosts") is not None or options.get("hostfile") is not None:
        return
    for name in ABOUT_WORKERS:
        spellings = ROWS[name].flags
        if options.get(name) is not None:
            continue
        for position, argument in enumerate(arguments):
            if _is_option(argument, spellings):
                value = "" if argument not in spellings else " ".join(arguments[position + 1 : position + 2])
                misplaced = f"{argument} {value}".rstrip()
                raise click.UsageError(
                    f"{misplaced} stands after {script}, so that it belongs to the script. Put it first: "
                    f"tfmuster launch {misplaced} {script}. If it is an option of the script, write -- "
                    f"before the script: tfmuster launch -- {script} {misplaced}"
                )


def _is_option(argument: str, spellings: tuple[str, ...]) -> bool:
    if argument.partition("=")[0] in spellings:
        return True
    # -n4, as in the options of click.
    return any(len(text) == 2 and argument.startswith(text) and argument[2:].isdigit() for text in spellings)


def _run_and_report(engine: Engine, job: Job, *, show: str, timings: bool) -> int:
    """Run a job to its end, print to stderr how it ended, and return the exit code."""
    from ..launcher.supervise.display import shown_path
    from ..tracking.record.layout import PREEMPTED

    begun = time.monotonic()
    run, failure = engine.run(job, show=show, tell=show != "nothing")
    if timings:
        for table in filter(None, (_timings_table(run), _shares_table(run))):
            say(f"\n{table}")
    if failure is not None:
        say(f"\n{failure.report(shown=show in ('all', 'each'))}")
        return EXIT_NOT_EVERYONE if failure.not_everyone else EXIT_WORKER_FAILED
    status = run.status()
    if status["state"] == PREEMPTED:
        say(f"tfmuster: preempted; resume it: tfmuster runs resume {_name_of(run)}")
        return 128 + int(status.get("signal", 15))
    if show != "nothing":
        say(f"tfmuster: done in {time.monotonic() - begun:.1f} s; {shown_path(run)}")
    return EXIT_DONE


def seconds_to_first_step(run: Run) -> dict[str, dict[str, float]]:
    """Return the length of each span in seconds, by task. Spans that a task has not finished are left out.

    ``launcher`` is the time from the start of this process, the launcher, to the start of the task's.
    """
    from ..tracking.live.states import read_events

    launcher = _own_start()
    spans: dict[str, dict[str, float]] = {}
    for task, events in read_events(run.path).items():
        times: dict[str, float] = {}
        for event in events:
            times.setdefault(event["phase"], event["time"])
        if "started" in times:
            known = [span for span in _SPANS if span[1] in times and span[2] in times]
            spans[task] = {"launcher": times["started"] - launcher}
            spans[task] |= {name: times[then] - times[first] for name, first, then in known}
    return spans


def _own_start() -> float:
    """Return the start time of this process, in seconds since the epoch."""
    try:
        # psutil adds to the boot time, which Linux reports in whole seconds only.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        import psutil

        return psutil.Process().create_time()
    return time.time() - age


def _timings_table(run: Run) -> str:
    """Format the times to the first step as a table with a column for each task."""
    spans = seconds_to_first_step(run)
    names = ["launcher", *(name for name, _, _ in _SPANS)]
    width = max(map(len, names))
    lines = [f"{'seconds to the first step':<{width}}" + "".join(f"  {task:>10}" for task in spans)]
    for name in names:
        cells = (f"{of_task[name]:10.2f}" if name in of_task else f"{'-':>10}" for of_task in spans.values())
        lines.append(f"{name:<{width}}" + "".join(f"  {cell}" for cell in cells))
    totals = (sum(of_task.values()) for of_task in spans.values())
    lines.append(f"{'total':<{width}}" + "".join(f"  {total:10.2f}" for total in totals))
    return "\n".join(lines)


def _shares_table(run: Run) -> str:
    """Format what the workers' last epoch of training went to; empty if it is not known."""
    from ..tracking.live.states import read_shares

    lines = [f"{'share of the last epoch':<26}  {'summing':>8}  {'of it waiting':>13}  mostly for"]
    for task, shares in read_shares(run.path).items():
        waited = shares.get("wait_share", 0.0)
        lines.append(
            f"{task:<26}  {shares['sum_share']:>8.0%}  {waited:>13.0%}  {shares.get('waits_for', '')}"
        )
    return "\n".join(lines) if len(lines) > 1 else ""


def _start_and_tell(engine: Engine, job: Job) -> int:
    """Start a job that continues after this command, and print its name and how to follow and stop it."""
    from ..launcher.detached import start_detached
    from ..launcher.supervise.display import shown_path

    run = start_detached(engine, job)
    name = _name_of(run)
    say(f"tfmuster: {job.workers} worker{'' if job.workers == 1 else 's'} started; {shown_path(run)}")
    for verb, what in (("show", "what it does"), ("logs -f", "its output"), ("stop", "end it")):
        say(f"  tfmuster runs {verb:<7} {name}   # {what}")
    print(visible(name))
    return EXIT_DONE


def _name_of(run: Run) -> str:
    """Return what `tfmuster runs` accepts in the working directory: the name, or the path."""
    return run.name if run.path.parent == Path("runs").resolve() else os.path.relpath(run.path)
