"""Write the report of a run anew while it continues, once somebody has asked for one."""

from __future__ import annotations

import contextlib
import time

from ...errors import TfmusterError
from ..run import Run
from . import REPORT, write_report
from .page import RENEWAL_SECONDS


def renew_report(run: Run, *, at_once: bool = False) -> None:
    """Replace ``report.html`` in the run directory if it is there and, unless `at_once`, some seconds old."""
    with contextlib.suppress(OSError, TfmusterError):
        age = time.time() - (run.path / REPORT).stat().st_mtime
        if at_once or age > RENEWAL_SECONDS:
            write_report(run)
