"""Run a job from the command line, and say how it ended."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EXIT_DONE, EXIT_NOT_EVERYONE, EXIT_WORKER_FAILED
from ..system.say import say
from ..system.terminal_text import visible
from ..tracking.record.layout import PREEMPTED

if TYPE_CHECKING:
    from ..launcher.engines.base import Engine
    from ..launcher.job import Job
    from ..tracking.run import Run


def run_and_report(engine: Engine, job: Job, *, show: str = "all", timings: bool = False) -> int:
    """Run a job to its end, print to stderr how it ended, and return the exit code.

    With ``timings``, also print where the time to the first step went, and who waited for whom.

    Raises
    ------
    LaunchError
        The job can't be started.
    """
    from ..launcher.supervise.display import shown_path

    begun = time.monotonic()
    run, failure = engine.run(job, show=show, tell=show != "nothing")
    if timings:
        from ..launcher.supervise.timings import shares_table, timings_table

        say(f"\n{timings_table(run)}")
        if shares := shares_table(run):
            say(f"\n{shares}")
    if failure is not None:
        say(f"\n{failure.report(shown=show == 'all')}")
        return EXIT_NOT_EVERYONE if failure.not_everyone else EXIT_WORKER_FAILED
    if (code := preempted_code(run)) is not None:
        say(f"tfmuster: preempted; resume it: tfmuster runs resume {name_of(run)}")
        return code
    if show != "nothing":
        seconds = time.monotonic() - begun
        say(f"tfmuster: done in {seconds:.1f} s; {shown_path(run)}")
    return EXIT_DONE


def name_of(run: Run) -> str:
    """Return what `tfmuster runs` accepts in the working directory: the name, or the path."""
    return run.name if run.path.parent == Path("runs").resolve() else os.path.relpath(run.path)


def preempted_code(run: Run) -> int | None:
    """Return 128 + the signal because of which a run was saved and has ended; None for other runs."""
    status = run.status()
    return 128 + int(status.get("signal", 15)) if status["state"] == PREEMPTED else None


def start_and_tell(engine: Engine, job: Job) -> int:
    """Start a job that continues after this command, and print its name and how to follow and stop it.

    Raises
    ------
    LaunchError
        The job can't be started.
    """
    from ..launcher.detached import start_detached
    from ..launcher.supervise.display import shown_path

    run = start_detached(engine, job)
    name = name_of(run)
    say(f"tfmuster: {job.workers} worker{'' if job.workers == 1 else 's'} started; {shown_path(run)}")
    for verb, what in (("show", "what it does"), ("logs -f", "its output"), ("stop", "end it")):
        say(f"  tfmuster runs {verb:<7} {name}   # {what}")
    print(visible(name))
    return EXIT_DONE
