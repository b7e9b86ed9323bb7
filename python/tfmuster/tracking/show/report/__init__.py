"""Write one HTML page about a run, for a browser or RStudio's viewer, or to attach to an issue.

The page loads nothing and has no scripts, and its security policy forbids both. Charts are inline SVG. The
templates of ``templates/`` escape all values, so that no log line and no name can become markup.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import TfmusterError
from ....system.replace import replacing_file
from ....system.say import say
from ....words import Code, Words
from ...run import Run
from .content import RENEWAL_SECONDS, content

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["ReportRenewal", "report_html", "write_report"]

#: File name of the page in the run directory.
REPORT = "report.html"

_TEMPLATES = Path(__file__).with_name("templates")
#: Characters that neither HTML nor XML allows.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def report_html(run: Run) -> str:
    """Return the page as text."""
    return _environment().get_template("page.html").render(content(run))


@cache
def _environment() -> Environment:
    # Only a report needs it, and its import takes 0.1 s of the command line's start.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def clean(value: Any) -> Any:
        """Replace characters that a page can't hold."""
        if isinstance(value, str) and not isinstance(value, Markup):
            return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
        return value

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["px"] = lambda value: f"{value:.1f}"
    return made


def write_report(run: Run, path: str | os.PathLike[str] | None = None) -> str:
    """Write the report of a run, one HTML page, to a file.

    Parameters
    ----------
    run : Run
        The run. You can report on it again while it is running.
    path : path, optional
        File to write or replace. Default: ``report.html`` in the run directory.

    Returns
    -------
    str
        The absolute path of the file.

    Raises
    ------
    TfmusterError
        If the file can't be written.
    """
    target = Path(path).absolute() if path is not None else run.path / REPORT
    text = report_html(run)
    try:
        # The page may be open in a browser, which loads it again while the run continues.
        with replacing_file(target) as file:
            file.write(text.encode())
    except OSError as error:
        raise TfmusterError(
            f"The report {target} can't be written.",
            found=error.strerror,
            fix=Words(
                "Name another file with {}, in a folder that you can write to.",
                Code("path", "path", "--output"),
            ),
            run=run.name,
        ) from error
    return str(target)


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
