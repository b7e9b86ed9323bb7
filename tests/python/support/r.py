"""R, where it is installed."""

from __future__ import annotations

import shutil

import pytest

NEEDS_R = pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
