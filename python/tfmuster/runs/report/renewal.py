"""Keep the report of a run up to date while the run continues, if there is one."""

from __future__ import annotations

import contextlib
import time

from ...errors import TfmusterError
from ..run import Run
from . import REPORT, write_report
from .content import RENEWAL_SECONDS


def renew_report(run: Run, *, at_once: bool = False) -> None:
    """Replace ``report.html`` in the run directory if it is there and, unless `at_once`, some seconds old."""
    # A page that another environment has written does not end a run in one without jinja2.
    with contextlib.suppress(OSError, TfmusterError, ImportError):
        age = time.time() - (run.path / REPORT).stat().st_mtime
        if at_once or age > RENEWAL_SECONDS:
            write_report(run)
