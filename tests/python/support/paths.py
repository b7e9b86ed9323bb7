"""Where things are in a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Programs that tests run, as users write them.
PROGRAMS = ROOT / "tests" / "python" / "programs"
DATA = ROOT / "tests" / "python" / "data"
