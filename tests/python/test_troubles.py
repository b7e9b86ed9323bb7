"""The table of errors, from which the vignette "When something goes wrong" is made, is that of the code."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import tfmuster
from tfmuster import errors

CORE = Path(tfmuster.__file__).parent
ROWS = json.loads((CORE / "troubles.json").read_text(encoding="utf-8"))
KINDS = {
    each.kind
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.TfmusterError)
}


def written() -> str:
    """All texts of the code, those in pieces and of R included."""
    texts = []
    for path in [*CORE.rglob("*.py"), *(CORE.parents[1] / "R").glob("*.R")]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".R":
            texts.append(text)
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(str(getattr(part, "value", "")) for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


WRITTEN = written()


def test_every_class_is_there() -> None:
    assert {row["kind"] for row in ROWS} == KINDS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_every_text_is_one_of_the_code(row: dict[str, str | None]) -> None:
    assert row["text"] in WRITTEN
    assert row["reason"] is None or row["reason"] in WRITTEN
    assert row["cause"] and row["mend"]
