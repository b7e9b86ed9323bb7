"""``tfmuster launch``: run a script or a command on several workers, of this machine or of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import EXIT_DONE, EXIT_INTERRUPTED
from .program_argument import ProgramCommand, program_argument, refuse_options_after_script
from .run_and_report import run_and_report, start_and_tell
from .training_options import take_training, training_options
from .value_types import Number, WholeNumber
from .where_options import read_where, where_options

if TYPE_CHECKING:
    from pathlib import Path


# Options end at the script's name. Arguments after it belong to the script.
@click.command("launch", cls=ProgramCommand, context_settings={"allow_interspersed_args": False})
@click.option(
    "-n",
    "-np",
    "--workers",
    type=WholeNumber(min=1),
    metavar="N",
    help="Start this many workers. Default: one per slot of the hosts, else 2.",
)
@click.option(
    "--ps",
    metavar="N",
    type=WholeNumber(min=0),
    default=0,
    help="Start this many parameter servers, which end with the workers. Default: 0.",
)
@click.option(
    "--chief", is_flag=True, help="Start a chief besides the workers. Default: worker 0 is the chief."
)
@click.option(
    "--evaluator", is_flag=True, help="Start an evaluator, which ends with the workers. Default: start none."
)
@where_options
@click.option(
    "-q", "--quiet", is_flag=True, help="Show only failures. Default: show the output of all workers."
)
@click.option(
    "--only-chief", is_flag=True, help="Show only the output of the chief. Default: of all workers."
)
@click.option("--name", metavar="NAME", help="Name the run. Default: the name of the script.")
@click.option(
    "--run-dir",
    metavar="PATH",
    type=click.Path(file_okay=False),
    help="Use this run directory. Default: runs/<UTC time>-<name>.",
)
@click.option(
    "--max-restarts",
    metavar="N",
    type=WholeNumber(min=0),
    default=0,
    help="Restart the whole job from its last checkpoint after a failure, at most N times. Default: 0.",
)
@click.option(
    "--start-timeout",
    metavar="SECONDS",
    type=Number(0, min_open=True),
    help="Wait this long for all tasks to arrive. Default: TFMUSTER_START_TIMEOUT, else 60.",
)
@training_options
@click.option(
    "--detach",
    is_flag=True,
    help="Return when the workers run; `tfmuster runs` follows them. Default: wait for the end.",
)
@click.option(
    "--timings",
    is_flag=True,
    help="Show at the end where the time went, and which workers waited. Default: do not.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="For batch systems: print the script, and do not submit it. Default: submit it.",
)
@program_argument
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
    detach: bool,
    timings: bool,
    dry_run: bool,
    program: tuple[str, ...],
    **training_and_where: Any,
) -> int:
    """Run a script or a command on several workers, of this machine or of others.

    Each worker gets TF_CONFIG and free ports, and runs your .py or .R script. A script without a strategy
    needs --distribute. In the script's arguments, {index}, {type}, {worker_hosts} and {ps_hosts} are replaced
    by each task's values. Each output line is shown with the worker's name; the run directory keeps the
    unmodified output. The first failure ends the job, is shown last, and makes the exit code 1, unless
    --max-restarts restarts the job.

    \b
    tfmuster launch -n 2 train.py --epochs 3
    tfmuster launch -n 4 train.R
    tfmuster launch -H node1:2,node2:2 train.R
    tfmuster launch -H node1,node2 --file digits.npz --file layers/ train.py
    tfmuster launch --backend spark --master spark://node1:7077 -n 3 train.R
    tfmuster launch -n 2 -- tfmuster train mnist --steps-per-epoch 0
    """
    from ..launch.engines.local import ThisMachine
    from ..launch.engines.registry import engine_for
    from ..launch.job import Job, workers_for
    from ..system.processes import adopt_orphans
    from ..system.shutdown_signal import SHUTDOWN

    refuse_options_after_script(program, {"workers": workers, **training_and_where})
    training = take_training(training_and_where, run_dir)
    engine = engine_for(read_where(**training_and_where))
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
        max_restarts=max_restarts,
        start_timeout=start_timeout,
        where=engine.again(),
        **training,
    )
    if dry_run:
        script = getattr(engine, "script", None)
        if script is None:
            raise click.UsageError("--dry-run is for the backends of batch systems.")
        click.echo(script(job), nl=False)
        return EXIT_DONE
    if detach:
        for option, given in (("--timings", timings), ("--quiet", quiet), ("--only-chief", only_chief)):
            if given:
                raise click.UsageError(f"{option} is about output, and --detach shows none.")
        return start_and_tell(engine, job)
    show = "nothing" if quiet else "chief" if only_chief else "all"
    adopt_orphans()
    # Whichever signal ends the launcher, it must end its workers first.
    SHUTDOWN.take_signals()
    try:
        return run_and_report(engine, job, show=show, timings=timings)
    except KeyboardInterrupt:
        click.echo("tfmuster: interrupted; every worker has been ended.", err=True)
        return EXIT_INTERRUPTED
