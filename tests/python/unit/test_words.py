"""Settings, functions and values of messages, as each face writes them."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfmuster
from tfmuster import words
from tfmuster.errors import LaunchError
from tfmuster.options.hints import Hint, Launch
from tfmuster.words import Argument, Code, Face, Part, Value, Words, did_you_mean, speaking

FACES: tuple[Face, ...] = ("python", "shell", "r")


@pytest.fixture(autouse=True)
def _of_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(words.FACE_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("part", "python", "shell", "r"),
    [
        (Hint("workers"), "workers", "-n", "workers"),
        (Hint("workers", 2), "workers=2", "-n 2", "workers = 2"),
        (Hint("copy", True), "copy=True", "--copy", "copy = TRUE"),
        (Hint("run_dir", "a b"), "run_dir='a b'", "--run-dir 'a b'", 'run_dir = "a b"'),
        (Hint("hosts", "a:1,b:2"), "on=Ssh('a:1,b:2')", "-H a:1,b:2", 'on = on_ssh("a:1,b:2")'),
        (Hint("hosts", "a:1", "mpi"), "on=Mpi('a:1')", "-H a:1", 'on = on_mpi("a:1")'),
        (Hint("backend", "lsf"), "on=Lsf()", "--backend lsf", "on = on_lsf()"),
        (
            Hint("master", "local[2]"),
            "on=Spark('local[2]')",
            "--master 'local[2]'",
            'on = on_spark("local[2]")',
        ),
        (
            Hint("backend_options", "-pe smp", "sge"),
            "on=Sge('-pe smp')",
            "--backend-option='-pe smp'",
            'on = on_sge("-pe smp")',
        ),
        (
            Hint("backend_options", "plain=yes", "spark"),
            "on=Spark('plain=yes')",
            "--backend-option plain=yes",
            'on = on_spark("plain=yes")',
        ),
        (
            Launch((Hint("workers", 2), Hint("ps", 1))),
            "launch(..., workers=2, control=Control(ps=1))",
            "tfmuster launch -n 2 --ps 1 ...",
            "launch(..., workers = 2, control = launch_control(ps = 1))",
        ),
        (
            Launch((Hint("hosts", "a:1"), Hint("copy", True)), script="SCRIPT"),
            "launch(script, on=Ssh('a:1', copy=True))",
            "tfmuster launch -H a:1 --copy SCRIPT",
            'launch(script, on = on_ssh("a:1", copy = TRUE))',
        ),
        (
            Launch((Hint("max_restarts"),), script=None),
            "launch(max_restarts=...)",
            "tfmuster launch --max-restarts",
            "launch(max_restarts = ...)",
        ),
        (Code("list(x)", "as.list(x)", "list X"), "list(x)", "list X", "as.list(x)"),
    ],
)
def test_settings_and_commands_are_written_for_the_face(part: Part, python: str, shell: str, r: str) -> None:
    for face, text in zip(FACES, (python, shell, r), strict=True):
        assert part.written(face) == text
        with speaking(face):
            assert str(part) == f"{part}" == Words("{}", part) == text


@pytest.mark.parametrize(
    ("value", "r"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (2.0, "2"),
        (0.5, "0.5"),
        (float("nan"), "NA"),
        (float("-inf"), "-Inf"),
        (7, "7"),
        ('a "b"\n', '"a \\"b\\"\\n"'),
        (Path("/tmp/x"), '"/tmp/x"'),
        (b"\x01\xff", "as.raw(c(0x01, 0xff))"),
        (["a"], '"a"'),
        (["a", "b"], 'c("a", "b")'),
        ((1, None), "list(1, NULL)"),
        ([], "list()"),
        ({"a": [1, 2.0]}, "list(a = c(1, 2))"),
        (object(), "an object of class object"),
    ],
)
def test_values_are_written_in_the_language_of_the_program(value: object, r: str) -> None:
    assert str(Value(value)) == repr(value)
    with speaking("shell"):
        assert str(Argument("replicas", value)) == f"replicas={value!r}"
    with speaking("r"):
        assert str(Value(value)) == r
        assert str(Argument("replicas", value)) == f"replicas = {r}"


def test_the_launcher_of_a_job_decides_the_face(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(words.FACE_VARIABLE, "shell")
    assert str(Hint("workers", 2)) == "-n 2"
    with speaking("r"):
        # A program in R that the command line has started.
        assert str(Hint("workers", 2)) == "-n 2"
        assert str(Value(None)) == "NULL"
        assert str(Code("save_model", "model_to_file")) == "model_to_file"
    monkeypatch.setenv(words.FACE_VARIABLE, "nonsense")
    assert str(Hint("workers", 2)) == "workers=2"


def test_an_error_knows_its_settings_and_is_written_when_it_is_raised() -> None:
    fix = Words("Start fewer ({}), or {}.", Hint("workers", 2), Words("use {}", Launch((Hint("ps", 1),))))
    with speaking("r"):
        error = LaunchError("{braces}", found=None, fix=fix, reason="slots")
        assert error.fix == "Start fewer (workers = 2), or use launch(..., control = launch_control(ps = 1))."
    said = json.loads(json.dumps(error.to_dict()))
    assert said["hints"] == [{"option": "workers", "value": 2}, {"option": "ps", "value": 1}]
    assert said["message"] == "{braces}" and type(error.to_dict()["fix"]) is str
    # Another process writes it in its own way.
    assert (
        pickle.loads(pickle.dumps(fix))
        == "Start fewer (workers=2), or use launch(..., control=Control(ps=1))."
    )
    assert "hints" not in LaunchError("no settings", fix="none").to_dict()


def test_a_name_that_is_near() -> None:
    assert did_you_mean("Miror", ("mirrored", "tpu")) == "Did you mean 'mirrored'?"
    with speaking("r"):
        assert did_you_mean("cn", ("cnn", "mlp")) == 'Did you mean "cnn"?'
    assert did_you_mean("nonsense", ("cnn", "mlp")) is None
    assert did_you_mean(None, ("cnn",)) is None


#: What one face writes, and the others do not.
_OF_ONE_FACE = re.compile(
    r"(?<![\w-])--(?!requeue|open-mode|signal|no-requeue|ntasks|distribution|ssh-from|batch|kind|volume|type"
    r"|index|proto|description|port|cidr|query|hostfile|to |address|command|cluster)[a-z]"
    r"|(?<![\w-])-[nH] (?:node|\d)|fewer workers \(-n\)|tfmuster launch|tfmuster runs|tfmuster doctor"
    r"|\b(?:True|False|None(?! of))\b|\b[a-z_]+=\{!r"
)
#: Not of the core's faces: what others read, and texts of the command line alone.
_OTHERS = (
    "cli/",
    "words.py",
    "options/",
    "launcher/manifests/",
    "diagnostics/tuning.py",
    "system/",
    "__init__.py",
)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The sentences of a module: its texts with blanks, but for docstrings and the parts of Code()."""
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Code":
            left_out.update(map(id, ast.walk(node)))
        elif isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in ast.walk(node) if part is not node)
            if id(node) not in left_out:
                yield node.lineno, "".join(map(_shown, node.values))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def _shown(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "{!r}" if isinstance(part, ast.FormattedValue) and part.conversion == ord("r") else "{}"


@pytest.mark.timeout(60)
def test_no_message_of_the_core_is_written_for_one_face() -> None:
    package = Path(tfmuster.__file__).parent
    found: list[Any] = []
    for path in sorted(package.rglob("*.py")):
        name = str(path.relative_to(package))
        if not name.startswith(_OTHERS):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [
                f"{name}:{line}: {text}"
                for line, text in texts(tree)
                if " " in text and _OF_ONE_FACE.search(text)
            ]
    assert "\n".join(found) == ""
