"""R's manual and vignettes in the site: what pkgdown writes, with the frame of all other pages.

A link `r:reference/launch.html` or `r:articles/spark.html` in any page leads there.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
#: The parts of pkgdown's site that have pages of ours.
PARTS = ("reference", "articles")


def folder_of(app: Sphinx) -> Path | None:
    text = app.config.r_pages_folder
    return Path(text) if text else None


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page of R: its name, what the template needs, and the template."""
    folder = folder_of(app)
    if folder is None:
        return
    for part in PARTS:
        for path in sorted((folder / part).rglob("*.html")):
            name = path.relative_to(folder).with_suffix("").as_posix()
            soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            main = soup.find("main")
            if main is None:
                continue  # a redirect
            for anchor in main.select("a.anchor"):
                anchor.decompose()
            for table in main.find_all("table"):
                table["class"] = [*table.get("class", []), "table"]
            title = main.find("h1")
            text = title.get_text(" ", strip=True) if title else name
            contents = "".join(
                '<li class="toc-h2 nav-item toc-entry"><a class="reference internal nav-link" '
                f'href="#{heading["id"]}">{heading.get_text(" ", strip=True)}</a></li>'
                for heading in (place_of(each) for each in main.find_all("h2"))
                if heading is not None
            )
            toc = f'<ul class="visible nav section-nav flex-column">{contents}</ul>' if contents else ""
            body = f'<article class="bd-article r-page">{main.decode_contents()}</article>'
            yield f"r/{name}", {"title": text, "body": body, "toc": toc, "r_toc": toc}, "r_page.html"


def place_of(heading: Any) -> Any:
    """Give the heading an id: pkgdown gives it to the division around it."""
    if not heading.get("id"):
        around = heading.find_parent(id=True)
        if around is None:
            return None
        heading = heading.__copy__()
        heading["id"] = around["id"]
    return heading


def copy_figures(app: Sphinx, error: Exception | None) -> None:
    folder = folder_of(app)
    if error is not None or folder is None:
        return
    for part in PARTS:
        for path in (folder / part).rglob("*"):
            if path.suffix in (".png", ".svg", ".jpg", ".csv"):
                target = Path(app.outdir) / "r" / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


def resolve(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Make relative links of those that begin with `r:`."""
    folder = folder_of(app)
    for link in list(doctree.findall(nodes.reference)):
        target = link.get("refuri", "")
        if not target.startswith("r:"):
            continue
        path = target[2:]
        if folder is None:
            link.replace_self(link.children)
            continue
        if not (folder / re.sub("#.*", "", path)).is_file():
            LOG.warning("no page of R: %s", path, location=link)
        start = posixpath.dirname(name) or "."
        link["refuri"] = posixpath.relpath(f"r/{path}", start)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("r_pages_folder", "", "html", str)
    app.connect("html-collect-pages", pages)
    app.connect("build-finished", copy_figures)
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
