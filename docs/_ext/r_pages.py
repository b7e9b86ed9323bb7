"""R's manual and vignettes in the site: what pkgdown writes, with the frame of all other pages.

A link `r:reference/launch.html` or `r:articles/spark.html` in any page leads there. The search finds them.
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
from docutils.utils import new_document
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
#: The parts of pkgdown's site that have pages of ours.
PARTS = ("reference", "articles")


def folder_of(app: Sphinx) -> Path | None:
    text = app.config.r_pages_folder
    return Path(text) if text else None


def contents(app: Sphinx) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the title and the content of each page of R."""
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
            yield f"r/{name}", title.get_text(" ", strip=True) if title else name, main


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page of R: its name, what the template needs, and the template."""
    for name, title, main in contents(app):
        entries = "".join(
            '<li class="toc-h2 nav-item toc-entry"><a class="reference internal nav-link" '
            f'href="#{heading["id"]}">{heading.get_text(" ", strip=True)}</a></li>'
            for heading in (place_of(each) for each in main.find_all("h2"))
            if heading is not None
        )
        toc = f'<ul class="visible nav section-nav flex-column">{entries}</ul>' if entries else ""
        body = f'<article class="bd-article r-page">{main.decode_contents()}</article>'
        yield name, {"title": title, "body": body, "toc": toc, "r_toc": toc}, "r_page.html"


def place_of(heading: Any) -> Any:
    """Give the heading an id: pkgdown gives it to the division around it."""
    if not heading.get("id"):
        around = heading.find_parent(id=True)
        if around is None:
            return None
        heading = heading.__copy__()
        heading["id"] = around["id"]
    return heading


def extend_search(app: Sphinx, error: Exception | None) -> None:
    """Let the search find these pages. Sphinx has indexed only what it has read itself."""
    indexer = getattr(app.builder, "indexer", None)
    if error is not None or indexer is None:
        return
    for name, title, main in contents(app):
        indexer.feed(name, f"{name}.html", title, document_of(name, title, main))
    with (Path(app.outdir) / app.builder.searchindex_filename).open("w", encoding="utf-8") as file:
        indexer.dump(file, app.builder.indexer_format)


def document_of(name: str, title: str, main: Any) -> nodes.document:
    """Return the text of a page with its headings, as Sphinx's index takes it."""
    document = new_document(name)
    document += (section := nodes.section())
    section += nodes.title(text=title)
    for each in main.find_all(["h2", "p", "li", "dt", "dd", "td", "pre"]):
        heading = place_of(each) if each.name == "h2" else None
        if heading is not None:
            document += (section := nodes.section(ids=[heading["id"]]))
            section += nodes.title(text=each.get_text(" ", strip=True))
        else:
            section += nodes.paragraph(text=each.get_text(" ", strip=True))
    return document


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
    app.connect("build-finished", extend_search)
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
