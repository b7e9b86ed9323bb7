"""The run of another user is shown as far as it can be read; what can't be done to it is said in words."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.launching import python
from support.r import NEEDS_R
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.recording import record_end
from tfmuster.tracking.run import Run

#: Changes the user after the imports: another user may not read this Python.
AS_ANOTHER = """
import os, sys
import tfmuster.tracking.show.report, tfmuster.tracking.show.listing, tfmuster.tracking.show.tail
import tfmuster.launcher.engines.local
import encodings.idna, encodings.unicode_escape  # of socket and jinja2
import click, jinja2, orjson, psutil, tfmuster.system.processes, tfmuster.tracking.record.ownership
from tfmuster.cli import main
for words in ("list", "show", "remove"):
    try:
        main(["runs", words, "--help"])
    except SystemExit:
        pass
if sys.argv[1] == "launch":
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        main(["launch", "-n", "1", "--quiet", "--run-dir", f"{folder}/run", "--", "true"])
print("begins")
os.setgid(65534)
os.setuid(65534)
raise SystemExit(main(sys.argv[1:]))
"""
NAME = "20260101T000000Z-train"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Another user can't enter pytest's own folders."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    run = Run(
        new_run("train", run_dir=made / "runs" / NAME, command=["train.py"], cluster={"worker": ["a:1"]})
    )
    (run.path / "logs" / "worker-0.log").write_text("text\n")
    record_end(run.path, "done", tasks={})
    yield made
    shutil.rmtree(made)


def as_another(folder: Path, *arguments: str) -> tuple[int, str]:
    done = python("-c", AS_ANOTHER, *arguments, cwd=folder)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.partition("begins\n")[2] + done.stderr


def test_what_can_be_read_is_shown(folder: Path) -> None:
    assert NAME in as_another(folder, "runs", "list")[1]
    code, said = as_another(folder, "runs", "show")
    assert code == 0 and "state:         done" in said
    assert as_another(folder, "runs", "logs") == (0, "worker 0 | text\n")


def test_what_can_not_be_done_is_said(folder: Path) -> None:
    code, said = as_another(folder, "runs", "report")
    assert code == 2 and "report.html can't be written.\n  found: Permission denied\n" in said
    code, said = as_another(folder, "runs", "remove", NAME)
    assert code == 2 and said.startswith("Error: You must be able to read and change the files of a run.\n")
    (folder / "runs" / NAME / "logs" / "worker-0.log").chmod(0o600)
    code, said = as_another(folder, "runs", "logs")
    assert code == 2 and "worker-0.log: Permission denied" in said
    assert (folder / "runs" / NAME / "status.json").exists()


def test_a_run_directory_of_another_is_refused_with_its_owner(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    run = f"runs/{NAME}"
    whose = "belongs to root, and you are nobody"
    for run_dir, found in (
        (run, f"{run} {whose}, and already holds run.json, "),
        ("new", f"{folder} {whose}: permission denied\n"),
        ("runs/of/mine", f"{folder}/runs {whose}: permission denied\n"),
        ("closed/run", f"{folder}/closed {whose}: permission denied\n"),
    ):
        code, said = as_another(folder, "launch", "-n", "1", "--run-dir", run_dir, "--", "true")
        begin = f"Error: You must be able to write to the run directory {run_dir}.\n  found: {found}"
        assert code == 2 and said.startswith(begin), said
        assert "  to do: Choose a folder of your own with --run-dir, or ask the owner for access.\n" in said
    # Without a run directory, it would be in this folder.
    code, said = as_another(folder, "launch", "-n", "1", "--", "true")
    assert code == 2 and f"  found: {folder}/runs {whose}: permission denied\n" in said


@NEEDS_R
@pytest.mark.timeout(100)
def test_r_says_so_too(folder: Path) -> None:
    """R becomes another user as Python does: after all is loaded."""
    code = """
    library(tfmuster)
    launch("true", workers = 1, run_dir = tempfile("run"), quiet = TRUE)
    os <- reticulate::import("os")
    os$setgid(65534L)
    os$setuid(65534L)
    tryCatch(launch("true", workers = 1, run_dir = "new"), tfmuster_error = function(e) {
      cat("begins", e$reason, conditionMessage(e), e$found, e$fix, sep = "\n")
    })
    """
    done = subprocess.run(
        ["Rscript", "-e", code], cwd=folder, capture_output=True, text=True, timeout=80, check=False
    )
    said = " ".join(done.stdout.partition("begins")[2].split())
    assert said.startswith("run-dir You must be able to write to the run directory new."), done.stderr
    assert f"{folder} belongs to root, and you are nobody: permission denied" in said
    assert "Choose a folder of your own with run_dir, or ask the owner for access." in said
