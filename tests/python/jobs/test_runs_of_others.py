"""The run of another user is shown as far as it can be read; what can't be done to it is said in words."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.launching import python
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.recording import record_end
from tfmuster.tracking.run import Run

#: Changes the user after the imports: another user may not read this Python.
AS_ANOTHER = """
import os, sys
import tfmuster.tracking.show.report, tfmuster.tracking.show.listing, tfmuster.tracking.show.tail
import tfmuster.launcher.engines.local
import encodings.unicode_escape  # of jinja2
import click, orjson, psutil, tfmuster.system.processes, tfmuster.tracking.record.ownership
from tfmuster.cli import main
for words in ("list", "show", "remove"):
    try:
        main(["runs", words, "--help"])
    except SystemExit:
        pass
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
    done = python("-c", AS_ANOTHER, "runs", *arguments, cwd=folder)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.partition("begins\n")[2] + done.stderr


def test_what_can_be_read_is_shown(folder: Path) -> None:
    assert NAME in as_another(folder, "list")[1]
    code, said = as_another(folder, "show")
    assert code == 0 and "state:         done" in said
    assert as_another(folder, "logs") == (0, "worker 0 | text\n")


def test_what_can_not_be_done_is_said(folder: Path) -> None:
    code, said = as_another(folder, "report")
    assert code == 2 and "report.html can't be written.\n  found: Permission denied\n" in said
    code, said = as_another(folder, "remove", NAME)
    assert code == 2 and said.startswith("Error: You must be able to read and change the files of a run.\n")
    (folder / "runs" / NAME / "logs" / "worker-0.log").chmod(0o600)
    code, said = as_another(folder, "logs")
    assert code == 2 and "worker-0.log: Permission denied" in said
    assert (folder / "runs" / NAME / "status.json").exists()
