"""What is written down twice, for R and for Python, is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tfmuster
from support.paths import ROOT


def test_install_tfmuster_installs_what_pyproject_asks_for(r: Callable[..., Any]) -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted, extras = project["dependencies"], project["optional-dependencies"]
    assert sorted(json.loads(r("packages_from_r", "1.46", "none"))) == sorted(wanted)
    for extra in ("tensorflow", "cpu", "cuda"):
        assert sorted(json.loads(r("packages_from_r", "1.46", extra))) == sorted([*wanted, *extras[extra]])
    assert "numpy>=1.26,<2" in json.loads(r("packages_from_r", "1.28"))
    assert r("python_versions_from_r", "1.46") == project["requires-python"]


def test_versions_and_places_are_equal() -> None:
    lines = (ROOT / "DESCRIPTION").read_text().splitlines()
    description = dict(line.split(": ", 1) for line in lines if ": " in line)
    assert description["Version"] == tfmuster.__version__
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert description["URL"] == project["urls"]["Homepage"]
    assert description["BugReports"] == project["urls"]["Issues"]
    (author,) = project["authors"]
    person = (ROOT / "DESCRIPTION").read_text().partition("Authors@R:")[2].partition("\nDescription")[0]
    assert author["name"] in person and author["email"] in person
    meta = json.loads((ROOT / "codemeta.json").read_text())
    assert meta["version"] == tfmuster.__version__
    assert (meta["url"], meta["issueTracker"]) == (description["URL"], description["BugReports"])
    assert meta["softwareHelp"]["url"] == project["urls"]["Documentation"] == f"{description['URL']}/docs"
    assert f"\nurl: {description['URL']}\n" in "\n" + (ROOT / "_pkgdown.yml").read_text()
    assert meta["author"][0]["email"] == author["email"]


def test_the_package_says_how_it_is_cited() -> None:
    done = subprocess.run(
        ["Rscript", "-e", "print(citation('tfmuster'), style = 'text')"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "tfmuster maintainers (2026)" in done.stdout and f"version {tfmuster.__version__}" in done.stdout


def test_r_uses_this_python_and_this_core(r: Callable[..., Any]) -> None:
    assert r("pid_of_python") == os.getpid()
    r("tf_config_from_r", '{"worker": ["a:1"]}', "worker", 0)
    assert sys.modules["tfmuster.r.bridge"].__file__.startswith(str(tfmuster.__path__[0]))
