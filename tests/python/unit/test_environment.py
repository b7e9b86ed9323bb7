"""The variables that users set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfmuster
from tfmuster import environment
from tfmuster.environment import grace, job_token, stall_timeout, start_timeout
from tfmuster.errors import TfmusterError

PACKAGE = Path(tfmuster.__file__).parent
#: The first spells them for all. The others don't import it: one is below it, one runs in every Python.
SPELL_THEM = tuple(PACKAGE / name for name in ("environment.py", "words.py", "worker/site/sitecustomize.py"))
NAME = re.compile(r"\bTFMUSTER_")


def spelled(source: str) -> Iterator[int]:
    """The lines in which code names a variable: not docstrings, nor the help of an option."""
    tree = ast.parse(source)
    texts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            texts.add(id(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option":
            texts.update(id(below) for text in help_of(node) for below in ast.walk(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in texts and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if NAME.search(text):
                yield node.lineno


def help_of(option: ast.Call) -> list[ast.expr]:
    """The help of an option: in the command line's rows, the second argument."""
    return [*option.args[1:2], *(keyword.value for keyword in option.keywords if keyword.arg == "help")]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""TFMUSTER_JOB is told."""', []),
        ('def f():\n    """TFMUSTER_JOB"""\n    return 1', []),
        ('option(help="Default: " "TFMUSTER_JOB.")', []),
        ('option("--job JOB", "Default: " "TFMUSTER_JOB.")', []),
        ('option("TFMUSTER_JOB", "Default: none.")', [1]),
        ("x = {}\n'''``TFMUSTER_JOB``'''", []),
        ('x = 1\nos.environ["TFMUSTER_JOB"]', [2]),
        ('env = {"TFMUSTER_JOB": 1}', [1]),
        ('fix=f"set TFMUSTER_JOB to {x}"', [1]),
        ('passed = ("TFMUSTER_", "TF_")', [1]),
        ('x = b"TFMUSTER_JOB=1"', [1]),
    ],
)
def test_what_counts_as_spelled(source: str, lines: list[int]) -> None:
    assert list(spelled(source)) == lines


def test_no_other_module_spells_them() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in SPELL_THEM
        for line in spelled(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_every_constant_has_a_name_of_its_own() -> None:
    names = {name: value for name, value in vars(environment).items() if name.endswith("_VARIABLE")}
    assert len(names) > 15
    for name, value in names.items():
        assert value == environment.PREFIX + name.removesuffix("_VARIABLE")


def test_start_timeout(monkeypatch):
    monkeypatch.delenv("TFMUSTER_START_TIMEOUT", raising=False)
    assert start_timeout() == 60.0 and start_timeout(5) == 5.0
    monkeypatch.setenv("TFMUSTER_START_TIMEOUT", "12.5")
    assert start_timeout() == 12.5
    monkeypatch.setenv("TFMUSTER_START_TIMEOUT", "soon")
    with pytest.raises(TfmusterError) as caught:
        start_timeout()
    assert str(caught.value) == (
        "TFMUSTER_START_TIMEOUT must be a positive number of seconds.\n"
        "  found: 'soon'\n"
        "  to do: give a number such as 60"
    )
    for bad in (0, -1, float("nan"), float("inf")):
        with pytest.raises(TfmusterError, match="timeout must be"):
            start_timeout(bad)


def test_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFMUSTER_GRACE", raising=False)
    assert grace() == 30.0 and grace(5) == 5.0
    for wrong in ("0", "-1", "soon", "nan"):
        monkeypatch.setenv("TFMUSTER_GRACE", wrong)
        with pytest.raises(TfmusterError, match=r"^TFMUSTER_GRACE must be a positive number of seconds"):
            grace()
    with pytest.raises(TfmusterError, match=r"^grace must be a positive number"):
        grace(0)


def test_stall_timeout(monkeypatch):
    monkeypatch.delenv("TFMUSTER_STALL_TIMEOUT", raising=False)
    assert stall_timeout() == 300.0 and stall_timeout(5) == 5.0
    assert stall_timeout(0) == float("inf")
    monkeypatch.setenv("TFMUSTER_STALL_TIMEOUT", "12.5")
    assert stall_timeout() == 12.5
    for wrong in ("-1", "soon", "nan", ""):
        monkeypatch.setenv("TFMUSTER_STALL_TIMEOUT", wrong)
        with pytest.raises(TfmusterError, match=r"^TFMUSTER_STALL_TIMEOUT must be a number of seconds"):
            stall_timeout()
    with pytest.raises(TfmusterError, match=r"^stall_timeout must be"):
        stall_timeout(True)


def test_a_short_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFMUSTER_TOKEN", raising=False)
    assert job_token() is None and job_token("x" * 16) == "x" * 16
    monkeypatch.setenv("TFMUSTER_TOKEN", "secret")
    for refused in (None, "x" * 15):
        with pytest.raises(TfmusterError, match="at least 16 characters") as caught:
            job_token(refused)
    assert caught.value.found == "15 characters"
