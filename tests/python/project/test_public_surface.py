"""What users build on: names, verbs, options, R functions, files of a run, variables.

``data/public_surface.json`` was written before the modules were divided into packages. A change of it is a
change that users see: it needs a line in NEWS.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import tfmuster as package
from support.launching import tfmuster
from support.paths import DATA, ROOT
from tfmuster.cli import cli

WRITTEN_DOWN: dict[str, Any] = json.loads((DATA / "public_surface.json").read_text())


def test_python_names() -> None:
    assert sorted(package.__all__) == WRITTEN_DOWN["python"]
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_members_of_classes() -> None:
    classes = {name: getattr(package, name) for name in (*package.__all__, "Digits", "Report")}
    members = {
        name: sorted(member for member in vars(made) if not member.startswith("_"))
        for name, made in classes.items()
        if isinstance(made, type) and not issubclass(made, Exception)
    }
    assert members == WRITTEN_DOWN["members"]


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, list[str]]]:
    context = click.Context(command, parent, name, **command.context_settings)
    yield name, sorted(text for parameter in command.get_params(context) for text in spelled(parameter))
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            below = command.get_command(context, verb)
            assert below is not None
            yield from commands(below, f"{name} {verb}", context)


def spelled(parameter: click.Parameter) -> list[str]:
    if isinstance(parameter, click.Option):
        return [*parameter.opts, *parameter.secondary_opts]
    return [f"<{parameter.name}>"]


def test_verbs_and_options() -> None:
    assert dict(commands(cli, "tfmuster")) == WRITTEN_DOWN["command_line"]


def test_r_functions() -> None:
    exports = re.findall(r"^export\((.+)\)$", (ROOT / "NAMESPACE").read_text(), re.MULTILINE)
    assert sorted(name.strip('"') for name in exports) == WRITTEN_DOWN["r"]


def test_the_names_of_r_functions_follow_the_rule() -> None:
    """A function has the name that it has in Python, or one of the table."""
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text()
    table = page.partition("## Names of R's functions\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)))
    prefixes = tuple(name for name in named if name.endswith("_"))
    suffixes = tuple(name for name in named if name.startswith("_"))
    assert len(named) > 12
    for name in WRITTEN_DOWN["r"]:
        known = name in named or name in package.__all__
        assert known or name.startswith(prefixes) or name.endswith(suffixes), name


def test_environment_variables() -> None:
    folders = (ROOT / "python" / "tfmuster", ROOT / "R", ROOT / "inst")
    sources = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".R")]
    named = {name for path in sources for name in re.findall(r"\bTFMUSTER_[A-Z_]+[A-Z]\b", path.read_text())}
    assert sorted(named) == WRITTEN_DOWN["variables"]


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def script(folder: Path, *lines: str) -> str:
    (folder / "train.py").write_text("\n".join(lines) + "\n")
    return "train.py"


@pytest.mark.cluster
@pytest.mark.parametrize(("kind", "lines"), [("done", ["pass"]), ("failed", ["raise SystemExit('no')"])])
def test_files_of_a_run(tmp_path: Path, kind: str, lines: Iterable[str]) -> None:
    metrics = (
        "open(os.environ['TFMUSTER_RUN_DIR'] + '/metrics.jsonl', 'a').write('{\"epoch\": 1, \"loss\": 2}\\n')"
    )
    tfmuster(
        "launch", "-n", 2, "--run-dir", "run", script(tmp_path, "import os", metrics, *lines), cwd=tmp_path
    )
    assert files_below(tmp_path / "run") == WRITTEN_DOWN["run_directory"][kind]


@pytest.mark.cluster
def test_files_of_a_run_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package.launch(os.getpid, workers=2, run_dir="run", quiet=True)
    assert files_below(tmp_path / "run") == WRITTEN_DOWN["run_directory"]["function"]
