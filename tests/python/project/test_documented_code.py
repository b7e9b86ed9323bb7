"""The code in the documentation: it parses, and its commands, options and names exist."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import tfmuster
from support.paths import ROOT
from tfmuster.cli import cli

PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("vignettes/*.Rmd"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
)
FENCE = re.compile(r"^( *)```(\w+|\{\w+[^}\n]*\})[^\n]*\n(.*?)^\1```", re.M | re.S)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """The blocks of a language, and the page that each is on."""
    for page in PAGES:
        for indent, marked, code in FENCE.findall(page.read_text(encoding="utf-8")):
            if marked.strip("{").split()[0].rstrip("}") == language and "literalinclude" not in marked:
                yield str(page.relative_to(ROOT)), textwrap.dedent(code) if indent else code


def programs() -> Iterator[tuple[str, str]]:
    """The examples in Python, and their paths."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "code"), [*blocks("python"), *programs()])
def test_python(page: str, code: str) -> None:
    """It parses, and all that it takes from tfmuster is public."""
    for node in ast.walk(ast.parse(code)):
        used: list[str] = []
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "tfmuster"
        ):
            used = [node.attr]
        elif isinstance(node, ast.Import):
            used = [
                name.name.removeprefix("tfmuster.")
                for name in node.names
                if name.name.startswith("tfmuster.")
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tfmuster":
            used = [name.name for name in node.names] if node.module == "tfmuster" else [node.module or ""]
        assert set(used) <= set(tfmuster.MODULE_OF), f"{page}: {used}"


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r(tmp_path: Path) -> None:
    files = []
    for number, (page, code) in enumerate(blocks("r")):
        files.append(tmp_path / f"{number:03}.R")
        files[-1].write_text(f"# {page}\n{code}")
    assert len(files) > 50
    parse = "for (file in list.files(commandArgs(TRUE), full.names = TRUE)) "
    parse += "tryCatch(parse(file), error = function(e) "
    parse += 'cat(readLines(file, 1), conditionMessage(e), "\\n"))'
    done = subprocess.run(
        ["Rscript", "-e", parse, tmp_path], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""


@pytest.mark.parametrize(("page", "code"), list(blocks("sh")))
def test_sh(page: str, code: str) -> None:
    done = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 0, f"{page}: {done.stderr}"
    for command in commands(code):
        parsed(command, page)


def commands(code: str) -> Iterator[list[str]]:
    """The calls of tfmuster, without what comes after a pipe, a redirection, or another command."""
    lines = code.replace("\\\n", " ").splitlines()
    for line in lines:
        for call in re.findall(r"(?:^|\(|&& |-- |env \S+ )(tfmuster [^#\n]*)", re.sub(r"\s+#.*", "", line)):
            text = re.split(r"\s*(?:\||>|;|&&|\)\"|\)$)", call)[0]
            try:
                words = shlex.split(text)
            except ValueError:  # a quotation that goes on in the next line
                continue
            yield words[1:]


def parsed(words: list[str], page: str) -> None:
    """Let click read the words, and run nothing."""
    command: click.Command = cli
    context = None
    given = words
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        # With its settings: click keeps the option for help that it makes first.
        context = click.Context(command, context, **command.context_settings)
        found = command.get_command(context, words[0])
        assert found is not None, f"{page}: there is no {words[0]}"
        command, words = found, words[1:]
    try:
        command.make_context("tfmuster", list(words), context)
    except click.exceptions.Exit:
        return
    except click.UsageError as error:
        raise AssertionError(f"{page}: tfmuster {' '.join(given)}: {error.format_message()}") from error
