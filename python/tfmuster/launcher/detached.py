"""Start a job that continues after the session that started it ends."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

from ..environment import SEED_VARIABLE, start_timeout
from ..errors import LaunchError, parts_of
from ..system.interpreter import run_module, with_tfmuster_on_path
from ..system.terminal_text import decoded, output_encoding
from ..tracking.lifecycle.beginning import claim_run_dir
from ..tracking.run import Run
from ..words import FACE_VARIABLE, Argument, Words, face
from .engines.base import Engine
from .job import Job, launch_options

_DETACH_SECONDS = 30.0

# Keeps a reference to each launcher, so that one that has ended does not stay a zombie during the session.
_detached: list[subprocess.Popen[bytes]] = []


def start_detached(engine: Engine, job: Job) -> Run:
    """Start a job that continues after this process ends. Return its run.

    It returns as soon as the workers run or a batch system has accepted the job. Raises LaunchError, with the
    launcher's message, if the job can't be started.
    """
    if (submitted := engine.submit(job)) is not None:
        return submitted
    claim = claim_run_dir(job.run_name, job.run_dir)
    run = Run(claim.path)
    try:
        _start_launcher(job, run, engine.as_options())
    finally:
        claim.release()
    return run


def _start_launcher(job: Job, run: Run, engine_options: Sequence[str]) -> None:
    """Start a launcher in its own process, and wait until its workers have been started."""
    # A drawn seed is passed on as a variable, so that the run does not record it as the user's.
    options = [*launch_options(job, run, drawn_seed=False), *engine_options]
    # A run that is resumed has the information of its earlier start.
    before = run.info().get("started")
    env = with_tfmuster_on_path(
        {**os.environ, SEED_VARIABLE: str(job.seed), FACE_VARIABLE: face(), **job.env}
    )
    launcher = subprocess.Popen(
        [*run_module("tfmuster"), "launch", "--quiet", *options, "--", *job.command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert launcher.stderr is not None
    _detached.append(launcher)
    _detached[:] = [process for process in _detached if process.poll() is None]
    # Hosts may take as long to answer as workers take to start.
    limit = _DETACH_SECONDS + start_timeout(job.start_timeout)
    end = time.monotonic() + limit
    while run.status()["state"] == "starting" or run.info().get("started") == before:
        if launcher.poll() is not None and run.info().get("started") == before:
            text = decoded(launcher.stderr.read(), output_encoding(env)).strip()
            parts = {"message": "The job could not be started.", "found": text or "no message"}
            raise LaunchError(**(parts_of(text) or parts), reason="detached")
        if time.monotonic() > end:
            launcher.terminate()
            raise LaunchError(
                "The job did not start in time, and was ended.",
                found=f"no worker runs after {limit:.0f} s",
                fix=Words("Launch it with {} to see its messages.", Argument("wait", True)),
                reason="detached",
            )
        time.sleep(0.05)
    launcher.stderr.close()
