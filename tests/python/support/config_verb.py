"""Run ``tfmuster config`` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tfmuster

TWO = ["--worker", "a:1", "--worker", "b:2"]
ONE = '{"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":1}}'
SOURCE = str(Path(tfmuster.__file__).parents[1])


def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tfmuster", *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )
