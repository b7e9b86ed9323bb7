"""The HTML page of a run that has failed."""

from __future__ import annotations

import sys
from pathlib import Path

from support.launching import only_run, tfmuster, write
from tfmuster.runs.states import read_events


def test_a_run_of_a_program_that_fails(tmp_path: Path) -> None:
    script = write(tmp_path, "fails.py", "print('last words', flush=True)", "raise ValueError('no luck')")
    tfmuster("launch", "-n", 2, "--max-restarts", 1, script, cwd=tmp_path)
    done = tfmuster("runs", "report", cwd=tmp_path)
    page = only_run(tmp_path) / "report.html"
    assert done.stdout.strip() == str(page)
    text = page.read_text(encoding="utf-8")
    assert "ValueError: no luck" in text and "last words" in text and "No metrics" in text
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in text
    for task, events in read_events(page.parent).items():
        assert task in ("worker 0", "worker 1")
        phases = [event["phase"] for event in events]
        assert phases.count("started") == 2
        assert phases[-1] in ("failed", "ended")
