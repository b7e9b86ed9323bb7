"""Run a program with two workers that measures two ways in turns, and take together what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def turns_of(program: str, *arguments: object) -> list[Any]:
    """Return what the chief of a program's two workers has printed after ``TURN``, read as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(program)
        command = [sys.executable, "-m", "tfmuster", "launch", "-n", "2", str(path), *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return [json.loads(text) for text in re.findall(r"TURN (.*)", done.stdout)]


def median(values: list[float]) -> float:
    """Return the middle value."""
    return sorted(values)[len(values) // 2]


def range_of(ratios: list[float]) -> str:
    """Return the median of ratios, the lowest and the highest."""
    return f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
