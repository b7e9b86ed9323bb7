"""Run a job from the command line, and say how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..errors import EXIT_DONE, EXIT_NOT_EVERYONE, EXIT_WORKER_FAILED
from ..system.say import say

if TYPE_CHECKING:
    from ..launch.engines.base import Engine
    from ..launch.job import Job


def run_and_report(engine: Engine, job: Job, *, show: str = "all", timings: bool = False) -> int:
    """Run a job to its end, print to stderr how it ended, and return the exit code.

    With ``timings``, also print where the time to the first step went.

    Raises
    ------
    LaunchError
        The job can't be started.
    """
    from ..launch.supervise.display import shown_path

    begun = time.monotonic()
    run, failure = engine.run(job, show=show, tell=show != "nothing")
    if timings:
        from ..launch.supervise.timings import timings_table

        say(f"\n{timings_table(run)}")
    if failure is not None:
        say(f"\n{failure}")
        return EXIT_NOT_EVERYONE if failure.not_everyone else EXIT_WORKER_FAILED
    if show != "nothing":
        seconds = time.monotonic() - begun
        say(f"tfmuster: done in {seconds:.1f} s; {shown_path(run)}")
    return EXIT_DONE
