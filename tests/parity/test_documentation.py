"""What is made of the R documentation: every topic has its place, and the cheat sheet is one page."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import tfmuster
from support.paths import ROOT


def r(code: str) -> str:
    done = subprocess.run(
        ["Rscript", "-e", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_topic_and_vignette_is_in_the_index() -> None:
    if r('cat(requireNamespace("pkgdown", quietly = TRUE))') != "TRUE":
        pytest.skip("no pkgdown: apt-get install r-cran-pkgdown")
    r("pkgdown::check_pkgdown()")


VIGNETTES = sorted(path.stem for path in (ROOT / "vignettes").glob("*.Rmd"))
LISTED = "cat(vignette(package = 'tfmuster', lib.loc = .libPaths()[1])$results[, 'Item'], sep = '\\n')"


def test_make_brings_the_vignettes() -> None:
    assert sorted(r(LISTED).split()) == VIGNETTES
    page = "cat(file.exists(system.file('doc', 'getting-started.html', package = 'tfmuster')))"
    assert r(page) == "TRUE"


@pytest.mark.skipif(shutil.which("qpdf") is None, reason="no qpdf")
def test_the_cheat_sheet_is_one_page() -> None:
    pdf = str(ROOT / "docs" / "cheatsheet.pdf")
    done = subprocess.run(["qpdf", "--show-npages", pdf], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_what_the_cheat_sheet_names_is_there() -> None:
    page = (ROOT / "docs" / "cheatsheet.html").read_text(encoding="utf-8")
    cells = re.findall(r"<td>(.*?)</td>", page, re.DOTALL)
    in_r = set(re.findall(r"\b([A-Za-z_]+)\(", " ".join(cells[0::3])))
    known = r('library(tfmuster); cat(getNamespaceExports("tfmuster"), sep = "\\n")').split()
    of_base = {"with", "scope", "list", "c", "plot", "predict", "function", "tryCatch"}
    assert in_r - of_base <= set(known)
    in_python = set(re.findall(r"tfmuster\.([a-z_]+)\(", " ".join(cells[2::3])))
    assert in_python <= set(dir(tfmuster))
    assert "from tfmuster." not in page  # a user needs the public names only
    verbs = set(re.findall(r"tfmuster ([a-z]+)", " ".join(cells[1::3])))
    assert verbs <= {"test", "doctor", "train", "launch", "runs", "check", "config"}
