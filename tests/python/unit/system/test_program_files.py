"""Which files a program is made of, and which of them do the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.system.program_files import code_digest, program_files


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".R" if "source(" in text else ".py").write_text(text)


def test_what_a_script_imports_from_its_folder(tmp_path: Path) -> None:
    write(
        tmp_path,
        train="import os\nimport layers, data.rows\ndef f():\n    from data import labels\n",
        layers="import numpy\nimport train\n",
        data__rows="from . import shapes\nfrom ..layers import x\n",
        data__labels="from .deep.er import y\n",
        data__shapes="this is no Python",
        data__deep__er="y = 1\n",
        unused="x = 1\n",
    )
    (tmp_path / "data" / "__init__.py").write_text("")
    found = program_files(tmp_path / "train.py")
    assert next(iter(found)) == "train.py"
    modules = {"labels", "rows", "shapes", "deep/er", "__init__"}
    assert found.keys() == {"train.py", "layers.py", *(f"data/{name}.py" for name in modules)}
    assert all(path.is_file() for path in found.values())


def test_what_a_script_of_r_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        train='source("own/layers.R")\n  sys.source(\'data.R\', environment())\n# source("old.R")\n',
        data='x <- base::source("own/layers.R", local = TRUE)\nsource(file.path(a, b))\nsource("/etc/x.R")',
        own__layers="# source()\n",
        old="# source()\n",
    )
    assert program_files(Path("train.R")).keys() == {"train.R", "data.R", "own/layers.R"}


def test_a_program_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert program_files(tmp_path / "train.py") == {}


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("x = f('other', 1)  # a comment\n\n", True),
        ("x = f('a', 2)\n", False),
        ("x = f('a', 1\n", False),
        ("y = f('a', 1)\n", False),
    ],
)
def test_texts_and_comments_do_nothing(tmp_path: Path, text: str, same: bool) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("x = f('a', 1)\n")
    other.write_text(text)
    assert (code_digest(one) == code_digest(other)) is same


def test_a_script_that_sets_tf_config_differs_by_design(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("import os\nos.environ['TF_CONFIG'] = config(0)\n")
    other.write_text("import os\nos.environ['TF_CONFIG'] = config(1)\n")
    assert code_digest(one) == code_digest(other)
