"""``tfmuster launch``: run a script or a command on several workers, of this machine or of others."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ..errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_EVERYONE, EXIT_WORKER_FAILED
from ..launch.engines.base import Engine
from ..launch.supervise.display import shown_path
from .where_options import read_where, where_options

if TYPE_CHECKING:
    from pathlib import Path

    from ..launch.job import Job


# Options end at the script's name: what follows is the script's.
@click.command("launch", context_settings={"allow_interspersed_args": False})
@click.option(
    "-n",
    "-np",
    "--workers",
    type=click.IntRange(min=1),
    help="Workers. Default: 2; with hosts, one per slot.",
)
@click.option(
    "--ps", type=click.IntRange(min=0), default=0, help="Parameter servers, ended with the workers."
)
@click.option("--chief", is_flag=True, help="A chief besides the workers; else worker 0 is it.")
@click.option("--evaluator", is_flag=True, help="An evaluator, ended with the workers.")
@where_options
@click.option("-q", "--quiet", is_flag=True, help="Show nothing but a failure.")
@click.option("--only-chief", is_flag=True, help="Show the chief's lines only.")
@click.option("--name", help="The run's name. Default: the script's.")
@click.option(
    "--run-dir", type=click.Path(file_okay=False), help="The run directory. Default: runs/<UTC time>-<name>."
)
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    help="After a failure, start all again from the last checkpoint, at most so often.",
)
@click.option(
    "--start-timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="How long to wait for everyone to arrive. Default: TFMUSTER_START_TIMEOUT, else 60.",
)
@click.option(
    "--gpus-per-worker",
    metavar="K",
    type=click.IntRange(min=0),
    help="GPUs that each worker sees; 0: none. Default: 1, if there are as many as workers.",
)
@click.option("--timings", is_flag=True, help="Say at the end where the time to the first step went.")
@click.option("--no-keras-compat", is_flag=True, help="Leave Keras 3 as it is.")
@click.option("--dry-run", is_flag=True, help="Batch systems: print the script, and submit nothing.")
@click.argument(
    "program", metavar="SCRIPT|COMMAND [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED
)
def command(
    *,
    workers: int | None,
    ps: int,
    chief: bool,
    evaluator: bool,
    quiet: bool,
    only_chief: bool,
    name: str | None,
    run_dir: Path | None,
    max_restarts: int,
    start_timeout: float | None,
    gpus_per_worker: int | None,
    timings: bool,
    no_keras_compat: bool,
    dry_run: bool,
    program: tuple[str, ...],
    **where: Any,
) -> int:
    """Run a script or a command on several workers, of this machine or of others.

    Each worker gets TF_CONFIG and free ports; a .py or .R script needs to know nothing of tfmuster. Output is
    shown line by line with the worker's name, and kept whole in the run directory. The first failure ends the
    job, is shown last and makes the exit code 1; --max-restarts starts all again.

    \b
    tfmuster launch -n 2 train.py --epochs 3
    tfmuster launch -n 4 train.R
    tfmuster launch -H node1:2,node2:2 train.R
    tfmuster launch -H node1,node2 --file digits.npz --file layers/ train.py
    tfmuster launch --backend spark --master spark://node1:7077 -n 3 train.R
    tfmuster launch -n 2 -- tfmuster train mnist --optimizer adam --steps-per-epoch 0
    """
    from ..launch.engines.local import ThisMachine
    from ..launch.engines.registry import engine_for
    from ..launch.job import Job, workers_for

    engine = engine_for(read_where(**where))
    if timings and not isinstance(engine, ThisMachine):
        raise click.UsageError("--timings is for workers on this machine.")
    job = Job(
        command=program,
        workers=workers_for(workers, engine.slots, others=ps + chief + evaluator),
        ps=ps,
        chief=chief,
        evaluator=evaluator,
        name=name,
        run_dir=run_dir,
        keras_compat=not no_keras_compat,
        max_restarts=max_restarts,
        start_timeout=start_timeout,
        gpus_per_worker=gpus_per_worker,
    )
    if dry_run:
        script = getattr(engine, "script", None)
        if script is None:
            raise click.UsageError("--dry-run is for the backends of batch systems.")
        click.echo(script(job), nl=False)
        return EXIT_DONE
    show = "nothing" if quiet else "chief" if only_chief else "all"
    # However the launcher is asked to end, it ends its workers first.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return run_and_report(engine, job, show=show, timings=timings)
    except KeyboardInterrupt:
        click.echo("tfmuster: interrupted; every worker has been ended.", err=True)
        return EXIT_INTERRUPTED


def run_and_report(engine: Engine, job: Job, *, show: str = "all", timings: bool = False) -> int:
    """Run a job to its end and say on stderr how it ended; the exit code.

    With ``timings`` it says, too, where the time to the first step went.

    Raises
    ------
    LaunchError
        It could not be started.
    """
    begun = time.monotonic()
    run, failure = engine.run(job, show=show, tell=show != "nothing")
    if timings:
        from ..launch.supervise.timings import timings_table

        print(f"\n{timings_table(run)}", file=sys.stderr)
    if failure is not None:
        print(f"\n{failure}", file=sys.stderr)
        return EXIT_NOT_EVERYONE if failure.not_everyone else EXIT_WORKER_FAILED
    if show != "nothing":
        seconds = time.monotonic() - begun
        print(f"tfmuster: done in {seconds:.1f} s; {shown_path(run)}", file=sys.stderr)
    return 0
