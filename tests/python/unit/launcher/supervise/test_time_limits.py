"""Limits of time: what ends inside ends first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import tfmuster
from tfmuster.launcher.supervise import time_limits
from tfmuster.launcher.supervise.time_limits import TimeLimit

TABLE = {name: value for name, value in vars(time_limits).items() if isinstance(value, TimeLimit)}
LAUNCH = Path(tfmuster.__file__).parent / "launcher"
MODULES = [path for path in LAUNCH.rglob("*.py") if path.name != "time_limits.py"]


def too_long(table: Mapping[str, TimeLimit]) -> list[str]:
    """Each limit that is not shorter than one that it must be shorter than."""
    names = {id(limit): name for name, limit in table.items()}
    return [
        f"{name} ({limit.seconds:g} s) must be shorter than {names[id(longer)]} ({longer.seconds:g} s)"
        for name, limit in table.items()
        for longer in limit.shorter_than
        if not 0 < limit.seconds < longer.seconds
    ]


def test_what_ends_inside_ends_first() -> None:
    assert too_long(TABLE) == []
    # The order is not empty: these are the chains of a job that ends, and of a connection that is lost.
    edges = {
        (name, other)
        for name, limit in TABLE.items()
        for other in TABLE
        if TABLE[other] in limit.shorter_than
    }
    assert {("AGENT_WORKER", "SUPERVISOR"), ("PROXY", "REMOTE"), ("AGENT", "AGENT_COMMAND")} < edges
    assert {("AGENT", "SPARK_STAGE"), ("BEAT", "DOUBTFUL"), ("DOUBTFUL", "SILENT")} < edges


def test_a_limit_that_is_too_long_is_found() -> None:
    outer = TimeLimit(2.0, "The outer one.")
    table = {"OUTER": outer, "INNER": TimeLimit(2.0, "The inner one.", shorter_than=(outer,))}
    assert too_long(table) == ["INNER (2 s) must be shorter than OUTER (2 s)"]


@pytest.mark.parametrize("name", TABLE)
def test_each_limit_says_what_it_ends_and_is_used(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z].*\.", TABLE[name].ends)
    # AGENT is the sum of two, to be compared; each other one is the limit of some wait.
    users = [path for path in MODULES if re.search(rf"\b{name}\.seconds\b", path.read_text())]
    assert users or name == "AGENT"


def test_no_module_has_such_a_limit_of_its_own() -> None:
    pattern = re.compile(r"^_?\w*(GRACE|LEAVING|LAST_WORDS|SILENT|BEAT|DOUBTFUL)\w* *=.*\d", re.MULTILINE)
    found = {
        path.relative_to(LAUNCH).as_posix(): pattern.findall(path.read_text())
        for folder in ("remote", "engines")
        for path in (LAUNCH / folder).rglob("*.py")
    }
    assert len(found) > 15 and not {name: names for name, names in found.items() if names}
