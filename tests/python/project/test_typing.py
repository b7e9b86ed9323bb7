"""Type checkers and editors know the public names, although they are loaded when they are first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tfmuster
from support.paths import ROOT

STUB = Path(tfmuster.__file__).with_suffix(".pyi")


def test_the_stub_has_all_names_from_their_modules() -> None:
    tree = ast.parse(STUB.read_text())
    imported = {
        name.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for name in node.names
        if name.asname == name.name
    }
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert imported == tfmuster.MODULE_OF
    assert set(tfmuster.__all__) <= {*imported, *functions, "__version__"}
    assert dir(tfmuster) == sorted(tfmuster.__all__)


@pytest.mark.slow
def test_a_type_checker_finds_a_typo_and_knows_types(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import tfmuster\n"
        "tfmuster.lanuch('train.py')\n"
        "tfmuster.launch('train.py', worker=2)\n"
        "run: int = tfmuster.find_run()\n"
        "tfmuster.runs(all=True)[0].status()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", tmp_path / "program.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    found = [line.partition("error: ")[2] for line in done.stdout.splitlines() if "error: " in line]
    assert len(found) == 3, done.stdout
    assert 'Module has no attribute "lanuch"' in found[0]
    assert 'Unexpected keyword argument "worker" for "launch"' in found[1]
    assert 'expression has type "Run", variable has type "int"' in found[2]
