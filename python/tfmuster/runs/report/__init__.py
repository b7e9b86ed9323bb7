"""One HTML page about a run: for the browser, for RStudio's viewer, to attach to an issue.

The page asks for nothing from anywhere: pictures are drawn in it, there is no script, and its security
policy forbids both. Everything that programs and users have written becomes text nodes of an element tree, so
that no log line and no name can become markup.
"""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from ..run import Run
from .page import page

__all__ = ["report_html", "write_report"]

#: The name of the page in the run directory.
REPORT = "report.html"


def report_html(run: Run) -> str:
    """The page, as a text."""
    return "<!DOCTYPE html>\n" + ElementTree.tostring(page(run), encoding="unicode", method="html") + "\n"


def write_report(run: Run, path: str | os.PathLike[str] | None = None) -> str:
    """Write the page.

    Parameters
    ----------
    run : Run
        Of what is there now; a run that goes on can be reported again.
    path : path, optional
        Where to; ``report.html`` in the run directory unless given. What is there is replaced.

    Returns
    -------
    str
        The absolute path.
    """
    target = Path(path).absolute() if path is not None else run.path / REPORT
    target.write_text(report_html(run), encoding="utf-8")
    return str(target)
