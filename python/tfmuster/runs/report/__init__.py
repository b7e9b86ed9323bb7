"""Write one HTML page about a run, for a browser or RStudio's viewer, or to attach to an issue.

The page loads nothing and has no scripts, and its security policy forbids both. Charts are inline SVG. All
text from programs and users becomes text nodes of an element tree, so that no log line and no name can become
markup.
"""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from ...errors import TfmusterError
from ...system.replace import replacing_file
from ...words import Code, Words
from ..run import Run
from .page import page

__all__ = ["report_html", "write_report"]

#: File name of the page in the run directory.
REPORT = "report.html"


def report_html(run: Run) -> str:
    """Return the page as text."""
    return "<!DOCTYPE html>\n" + ElementTree.tostring(page(run), encoding="unicode", method="html") + "\n"


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
