"""The table of errors, from which the vignette "When something goes wrong" is made, is that of the code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfmuster
from tfmuster import errors

CORE = Path(tfmuster.__file__).parent
ROWS = json.loads((CORE.parents[1] / "vignettes" / "troubles.json").read_text(encoding="utf-8"))
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
#: Texts with parts that each face writes in its own way.
TEMPLATES = [
    re.compile(re.escape(line).replace(re.escape("{}"), ".+"))
    for line in WRITTEN.splitlines()
    if "{}" in line
]

#: What an argument is called where its name becomes the reason: no literal of the source.
NAMED_AFTER_ARGUMENTS = {
    ("model", "epochs"),
    ("model", "steps-per-epoch"),
    ("model", "batch-size"),
    ("strategy", "communication"),
    ("strategy", "gradient-dtype"),
    ("strategy", "batch-norm"),
    ("strategy", "verify"),
}
KIND_OF = {
    name: each.kind
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.TfmusterError)
}


def literals(node: ast.expr | None) -> set[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.IfExp):
        return literals(node.body) | literals(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            yield name, node


def raised_in_python() -> tuple[set[tuple[str, str]], set[str]]:
    """Kind and reason of every error, and the expressions of those that are no texts."""
    found, others = set(), set()
    for path in CORE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            parameters = [argument.arg for argument in function.args.args]
            for kind in {KIND_OF[name] for name, _ in calls(function) if name in KIND_OF}:
                if "reason" in parameters:
                    place = parameters.index("reason")
                    given = [call.args[place] for name, call in calls(tree) if name == function.name]
                    found |= {(kind, reason) for each in given for reason in literals(each)}
        for name, call in calls(tree):
            for keyword in call.keywords:
                if name in KIND_OF and keyword.arg == "reason":
                    reasons = literals(keyword.value)
                    found |= {(KIND_OF[name], reason) for reason in reasons}
                    others |= set() if reasons else {ast.unparse(keyword.value)}
    return found, others


def raised_in_r() -> set[tuple[str, str]]:
    found = set()
    for path in (CORE.parents[1] / "R").glob("*.R"):
        text = path.read_text(encoding="utf-8")
        for after in text.split("abort_tfmuster(")[1:]:
            error = after.partition("\n}\n")[0]
            reason, kind = re.search(r'reason = "([^"]+)"', error), re.search(r'kind = "(\w+)"', error)
            found |= {(kind[1], reason[1])} if kind and reason else set()
        for error in re.findall(r"  abort_data\(\n.*?\n *\)\n", text, re.DOTALL):
            found.add(("data", re.findall(r'"([^"]*)"', error)[-1]))
    return found


def test_no_reason_is_missing() -> None:
    in_python, others = raised_in_python()
    in_r = raised_in_r()
    assert ("data", "not-numbers") in in_r and ("launch", "globals") in in_r
    assert ("data", "magic") in in_python and ("model", "unsafe") in in_python
    assert {(row["kind"], row["reason"]) for row in ROWS if row["reason"]} == (
        in_python | in_r | NAMED_AFTER_ARGUMENTS
    )
    # Arguments' names, helpers' parameters, and what another process said: a new one has to be looked at.
    assert others == {
        "reason",
        "name.replace('_', '-')",
        "failure['message']",
    }


def test_every_class_is_there() -> None:
    assert {row["kind"] for row in ROWS} == KINDS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_every_text_is_one_of_the_code(row: dict[str, str | None]) -> None:
    text = str(row["text"])
    assert text in WRITTEN or any(template.fullmatch(text) for template in TEMPLATES)
    reason = row["reason"]
    assert reason is None or reason in WRITTEN or (row["kind"], reason) in NAMED_AFTER_ARGUMENTS
    assert row["cause"] and row["fix"]
