"""What `make test-keras3` runs: a test that is skipped there is an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test-keras3.R"


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("expect_equal(1, 1)", 0),
        ("expect_equal(1, 2)", 1),
        ("skip_if_not_installed('no.such.package')", 1),
    ],
)
def test_only_tests_that_ran_and_passed_count(tmp_path: Path, test: str, code: int) -> None:
    folder = tmp_path / "testthat"
    folder.mkdir()
    (folder / "test-keras3.R").write_text(f"test_that('x', {test})\n")
    (folder / "test-other.R").write_text("stop('of no interest')\n")
    done = subprocess.run(
        ["Rscript", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("*** Skipped: test-keras3.R" in done.stderr) == ("skip" in test)
