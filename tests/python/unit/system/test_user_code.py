"""The line of the user's program in which a library is, as messages name it."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import pytest

from tfmuster.system.user_code import user_line, user_script


def called_from(path: Path, code: str) -> str:
    """What `user_line()` says to a library that a program with this code calls in its line 2."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"\n{code}\n")
    linecache.checkcache(str(path))
    names = {"library": user_line}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found = names["found"]
    assert isinstance(found, str)
    return found


def test_the_innermost_line_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert called_from(tmp_path / "train.py", "found = library()") == "train.py, line 2: found = library()"
    assert (
        called_from(tmp_path / "own" / "a.py", "found = library()") == "own/a.py, line 2: found = library()"
    )
    elsewhere = tmp_path.parent / "else.py"
    assert called_from(elsewhere, "found = library()") == f"{elsewhere}, line 2: found = library()"


def test_code_without_a_file_has_a_number() -> None:
    names = {"library": user_line}
    exec(compile("\nfound = library()", "<string>", "exec"), names)
    assert names["found"] == "<string>, line 2"


def test_libraries_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inner = tmp_path / "lib" / "python3.11" / "site-packages" / "keras" / "layers.py"
    # The innermost line of the user is that of this test.
    assert called_from(inner, "found = library()").startswith(f"{__file__}, line ")


def test_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/home/me/train.py", raising=False)
    assert user_script() == "/home/me/train.py"
    monkeypatch.setattr(
        main, "__file__", "/usr/lib/python3/dist-packages/ipykernel_launcher.py", raising=False
    )
    assert user_script() is None
    monkeypatch.setattr(main, "__file__", "/home/me/.venv/bin/ipython", raising=False)
    assert user_script() is None
    monkeypatch.delattr(main, "__file__")
    assert user_script() is None
