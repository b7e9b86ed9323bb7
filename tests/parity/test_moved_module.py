"""R names things, not files: a Python module can be moved without touching R."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CALLS = """
library(tfmuster, lib.loc = commandArgs(TRUE))
task <- cluster_task(cluster_spec(worker = c("a:1", "b:2")), "worker", 1L)
print(task)
use_tf_config(task)
cat(tf_config_json(current_task()), "\\n")
cat(reticulate::import("tfmuster")$`__file__`, "\\n")
cat("tfmuster.cluster.spec" %in% names(reticulate::import("sys")$modules), "\\n")
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with a copy of the installed R package, in whose core the module of Cluster has moved."""
    found = subprocess.run(
        ["Rscript", "-e", 'cat(find.package("tfmuster"))'], capture_output=True, text=True, check=True
    ).stdout
    package = tmp_path / "tfmuster"
    shutil.copytree(found, package, symlinks=False)
    core = package / "python" / "tfmuster"
    (core / "moved").mkdir()
    (core / "moved" / "__init__.py").write_text("")
    (core / "cluster" / "spec.py").rename(core / "moved" / "cluster_values.py")
    for path in core.rglob("*.py"):
        text = path.read_text()
        # What whoever moves it does: its own relative imports, and those of its importers.
        if path.parent.name == "moved":
            text = re.sub(r"^( *from )\.(\w)", r"\1..cluster.\2", text, flags=re.MULTILINE)
        dots = "." * len(path.parent.relative_to(core).parts) + "."
        text = re.sub(
            r"^( *from )\.+(?:cluster\.)?spec import",
            rf"\1{dots}moved.cluster_values import",
            text,
            flags=re.MULTILINE,
        )
        path.write_text(text.replace('"cluster.spec"', '"moved.cluster_values"'))
    return tmp_path


def test_r_calls_what_has_moved(library: Path) -> None:
    done = subprocess.run(
        ["Rscript", "-e", CALLS, str(library)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "worker 1" in done.stdout
    assert said[-3].startswith('{"cluster":{"worker":["a:1","b:2"]}')
    assert said[-2].strip() == str(library / "tfmuster" / "python" / "tfmuster" / "__init__.py")
    assert said[-1].strip() == "FALSE"
