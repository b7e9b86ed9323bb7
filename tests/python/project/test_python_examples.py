"""Every public name of Python has an example, and all of them run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfmuster
from support.paths import PROGRAMS, ROOT

PAGE = ROOT / "docs" / "reference" / "examples.md"
NAMES = re.findall(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), re.M)


def test_every_name_has_one() -> None:
    public = {name for name in (*tfmuster.__all__, *tfmuster.MODULE_OF) if not name.startswith("_")}
    assert set(NAMES) == public
    assert len(NAMES) == len(public)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(320)
def test_they_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAMS / "documented_names.py", PAGE],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert re.findall(r"^ran (\w+)$", done.stdout, re.M) == NAMES
