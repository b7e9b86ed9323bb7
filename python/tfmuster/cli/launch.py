"""``tfmuster launch``: run a script or a command on several workers, of this machine or of others."""

from __future__ import annotations

from typing import Any

import click

from ..errors import EXIT_DONE, EXIT_INTERRUPTED
from ..options.table import PLACES, Control, Plain, Waiting
from .launch_options import launch_options, settings_of
from .program_argument import ProgramCommand, program_argument, refuse_options_after_script
from .run_and_report import run_and_report, start_and_tell


# Options end at the script's name. Arguments after it belong to the script.
@click.command("launch", cls=ProgramCommand, context_settings={"allow_interspersed_args": False})
@launch_options
@program_argument
def command(*, program: tuple[str, ...], backend: str | None, **options: Any) -> int:
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
    from ..launcher.engines.base import engine_for, place_for
    from ..launcher.engines.local import ThisMachine
    from ..launcher.job import Job, workers_for
    from ..system.processes import adopt_orphans
    from ..system.shutdown_signal import SHUTDOWN

    refuse_options_after_script(program, options)
    engine = engine_for(place_for(backend, settings_of(PLACES, options)))
    waiting = Waiting(**settings_of([Waiting], options))
    if waiting.timings and not isinstance(engine, ThisMachine):
        raise click.UsageError("--timings is for workers on this machine.")
    settings = settings_of([Plain, Control], options)
    others = settings["ps"] + settings["chief"] + settings["evaluator"]
    settings["workers"] = workers_for(settings["workers"], engine.slots, others=others)
    job = Job(program, where=engine.relaunch_options(), **settings)
    if waiting.dry_run:
        script = getattr(engine, "script", None)
        if script is None:
            raise click.UsageError("--dry-run is for the backends of batch systems.")
        click.echo(script(job), nl=False)
        return EXIT_DONE
    if not waiting.wait:
        for option, is_set in (
            ("--timings", waiting.timings),
            ("--quiet", waiting.quiet),
            ("--only-chief", job.only_chief),
        ):
            if is_set:
                raise click.UsageError(f"{option} is about output, and --detach shows none.")
        return start_and_tell(engine, job)
    show = "nothing" if waiting.quiet else "chief" if job.only_chief else "all"
    adopt_orphans()
    # Whichever signal ends the launcher, it must end its workers first.
    SHUTDOWN.take_signals()
    try:
        return run_and_report(engine, job, show=show, timings=waiting.timings)
    except KeyboardInterrupt:
        click.echo("tfmuster: interrupted; every worker has been ended.", err=True)
        return EXIT_INTERRUPTED
