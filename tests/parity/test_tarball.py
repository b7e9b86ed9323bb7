"""The R package as a user gets it: from its tarball, in a library that has nothing else of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What R CMD build makes of the files that git knows or would know."""
    return built(tmp_path_factory.mktemp("build"), "--no-build-vignettes")


def built(folder: Path, *options: str) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, listed)):
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (folder / "tfmuster" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "tfmuster" / name, follow_symlinks=False)
    # Without the results of the vignettes, which take minutes.
    env = {**os.environ, "TFMUSTER_VIGNETTES": "text"}
    subprocess.run(
        ["R", "CMD", "build", *options, "tfmuster"], cwd=folder, capture_output=True, check=True, env=env
    )
    (found,) = folder.glob("tfmuster_*.tar.gz")
    return found


def test_it_brings_the_vignettes(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    command = ["R", "CMD", "INSTALL", f"--library={library}", str(built(tmp_path))]
    subprocess.run(command, capture_output=True, check=True)
    listed = "cat(vignette(package = 'tfmuster', lib.loc = commandArgs(TRUE))$results[, 'Item'])"
    done = subprocess.run(["Rscript", "-e", listed, library], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(path.stem for path in ROOT.glob("vignettes/*.Rmd"))


def test_it_carries_the_core_and_nothing_that_is_not_for_users(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
    python = {name.removeprefix("tfmuster/inst/python/") for name in names if "/inst/python/" in name}
    assert {"tfmuster/__init__.py", "tfmuster/worker/site/sitecustomize.py"} <= python
    templates = ("page.html", "charts.svg", "style.css")
    assert {f"tfmuster/tracking/show/report/templates/{name}" for name in templates} <= python
    assert "tfmuster/vignettes/troubles.json" in names
    top = {name.split("/")[1] for name in names if "/" in name}
    assert top <= {"DESCRIPTION", "NAMESPACE", "NEWS.md", "R", "inst", "man", "tests", "vignettes", "build"}
    assert not [name for name in names if name.endswith(".pyc") or "/tests/python" in name]


def test_it_works_in_an_empty_library(tarball: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "R_LIBS", "TF_CONFIG")
    }
    environment["R_LIBS"] = str(library)
    subprocess.run(
        ["R", "CMD", "INSTALL", f"--library={library}", str(tarball)],
        env=environment,
        capture_output=True,
        check=True,
    )
    code = [
        "library(tfmuster)",
        "invisible(tfmuster_test())",
        "values <- launch(function() tfmuster::current_task()$index, workers = 2, quiet = TRUE)",
        "cat('values', unlist(values), '\\n')",
        "cat('core', reticulate::import('tfmuster')$`__file__`, '\\n')",
    ]
    done = subprocess.run(
        ["Rscript", "-e", "; ".join(code)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "You are ready" in done.stdout, done.stdout + done.stderr
    assert "values 0 1" in done.stdout
    assert f"core {library}" in done.stdout
