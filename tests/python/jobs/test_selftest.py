"""``tfmuster test``: two workers train, and what is wrong is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import nothing_left, tfmuster, write
from tfmuster.diagnostics.selftest import selftest, verdict


def test_you_are_ready(tmp_path: Path) -> None:
    done = tfmuster("test", cwd=tmp_path, limit=100)
    assert done.stdout.startswith("You are ready: 2 workers have trained together, with equal weights (")
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())
    nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import time; print('here', flush=True); time.sleep(100)", "not done after 3 s (worker 0: here"),
        ("pass", "only 0 of 2 workers"),
        ("RESULT % (i, i, 2)", "different weights"),
        ("RESULT % (i, 7, 1)", "did not train together"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, found: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["import json, os", "i = json.loads(os.environ['TF_CONFIG'])['task']['index']"]
    if program.startswith("RESULT"):
        index, weights, replicas = program.removeprefix("RESULT % (").rstrip(")").split(", ")
        program = (
            f"open(os.environ['TFMUSTER_RUN_DIR'] + f'/result-{{{index}}}.json', 'w')"
            f".write(json.dumps({{'weights': {weights}, 'replicas': {replicas}}}))"
        )
    report = selftest(write(tmp_path, "program.py", *lines, program), timeout=3)
    assert not report["ready"]
    text = "\n".join(verdict(report))
    assert text.startswith("Not ready yet.")
    assert found in text
    assert "listens on 0.0.0.0" in text
    nothing_left(tmp_path)
