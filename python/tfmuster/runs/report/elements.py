"""Make HTML and SVG elements in which text can't become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

# Characters that neither HTML nor XML allows.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def element(tag: str, *children: Element | str, **attributes: object) -> Element:
    """Make an element. In attribute names, a trailing underscore is dropped, and others become hyphens."""
    made = Element(
        tag, {name.rstrip("_").replace("_", "-"): clean(str(value)) for name, value in attributes.items()}
    )
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + clean(child)
        else:
            made.text = (made.text or "") + clean(child)
    return made


def clean(text: str) -> str:
    """Replace characters that a page can't hold."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Element:
    """Make a table with a header."""
    head = element("tr", *(element("th", name, scope="col") for name in header))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element("table", element("thead", head), element("tbody", *body))


def facts(known: dict[str, str]) -> Element:
    """Make a table of labels and values."""
    rows = [
        element("tr", element("th", label, scope="row"), element("td", value))
        for label, value in known.items()
    ]
    return element("table", element("tbody", *rows))
