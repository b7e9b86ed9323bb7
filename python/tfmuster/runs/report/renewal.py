"""Keep the report of a run up to date while the run continues, if there is one."""

from __future__ import annotations

import time

from ...errors import TfmusterError
from ...system.say import say
from ..run import Run
from . import REPORT, write_report
from .content import RENEWAL_SECONDS


class ReportRenewal:
    """Replaces ``report.html`` in a run directory if it is there. No failure of it ends the job.

    Parameters
    ----------
    run : Run
        The run, which any program can write to, so that its files may hold anything.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._failed = False

    def renew(self, *, at_once: bool = False) -> None:
        """Replace the page if it is some seconds old or, `at_once`, however old it is."""
        if self._failed and not at_once:
            return
        try:
            age = time.time() - (self._run.path / REPORT).stat().st_mtime
            if at_once or age > RENEWAL_SECONDS:
                write_report(self._run)
        except (OSError, TfmusterError, ImportError):
            # Nobody has asked for a page, or another environment has written it, and this one has no jinja2.
            return
        except Exception as error:
            self._failed = True
            say(f"tfmuster: the report can't be renewed: {type(error).__name__}: {error}")
