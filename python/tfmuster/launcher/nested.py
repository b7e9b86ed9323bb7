"""Refuse a launch by a worker of a job, which would double the processes again and again."""

from __future__ import annotations

import os
import shlex
import sys

from ..environment import ALLOW_NESTED_VARIABLE, JOB_VARIABLE, NESTED_VARIABLE, is_on
from ..errors import LaunchError
from ..options.hints import Hint, Launch
from ..system.user_code import user_line
from ..words import Words, language


def in_a_job() -> bool:
    """Return whether this process belongs to a job: it is a worker, or a worker has started it."""
    return JOB_VARIABLE in os.environ


def check_not_nested(allowed: bool) -> None:
    """Check that this process is outside of all jobs, or that its user wants jobs of a job's workers.

    Raises
    ------
    LaunchError
        This process belongs to a job and nested jobs are not allowed, or to a job of a job's worker, which
        are never (reason ``nested``). ``found`` is the line that launches.
    """
    if not in_a_job():
        return
    nested = is_on(NESTED_VARIABLE)
    if not nested and (allowed or is_on(ALLOW_NESTED_VARIABLE)):
        return
    line = user_line(r_function="launch")
    setting = Launch((Hint("allow_nested", True),), of="shell" if line is None else language())
    if nested:
        message = "A job that a worker has launched must not launch another one."
        fix = Words("Launch it elsewhere: {} is for one level.", setting)
    else:
        message = "A worker of a job must not launch another one: each of its workers would do so, too."
        fix = Words(
            "Launch from another script, which is not a worker's program. If each worker is to launch a job "
            "of its own, write {}, or set {}=1.",
            setting,
            ALLOW_NESTED_VARIABLE,
        )
    found = shlex.join(["tfmuster", *sys.argv[1:]]) if line is None else line
    raise LaunchError(message, found=found, fix=fix, reason="nested")
