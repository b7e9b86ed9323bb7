"""The HTML page of a run: it follows the run, and says how it ended."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.launching import only_run, start_tfmuster, tfmuster, wait_until, write
from tfmuster.tracking.live.states import read_events


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


def test_the_templates_are_loaded_for_a_page_only() -> None:
    """A launcher and the other verbs don't wait for jinja2."""
    code = "import sys, tfmuster.cli.runs, tfmuster.tracking.show.report; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@contextlib.contextmanager
def browser(page: Path, profile: Path) -> Iterator[str]:
    """Show a page in headless Chromium; yields the address that tells what it shows."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += ["--no-first-run", f"--user-data-dir={profile}", "--remote-debugging-port=0"]
    command = [shutil.which("chromium"), *options, page.as_uri()]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            told = profile / "DevToolsActivePort"
            wait_until(lambda: told.exists() and told.read_text().count("\n") == 1, 60)
            yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}/json/list"
        finally:
            process.terminate()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium: apt-get install chromium")
def test_an_open_page_follows_the_run_until_its_end(tmp_path: Path) -> None:
    lines = ["import pathlib, time", "print('first words', flush=True)"]
    lines += ["while not pathlib.Path('go').exists(): time.sleep(0.1)", "print('later words', flush=True)"]
    lines += ["while not pathlib.Path('end').exists(): time.sleep(0.1)"]
    launcher = start_tfmuster("launch", write(tmp_path, "waits.py", *lines), cwd=tmp_path)
    try:
        wait_until(lambda: "first words" in tfmuster("runs", "logs", cwd=tmp_path).stdout)
        page = Path(tfmuster("runs", "report", cwd=tmp_path).stdout.strip())
        assert page == only_run(tmp_path) / "report.html"
        assert 'http-equiv="refresh"' in page.read_text() and "later words" not in page.read_text()
        with browser(page, tmp_path / "profile") as shown:

            def title() -> str:
                with urllib.request.urlopen(shown, timeout=10) as answer:
                    return json.load(answer)[0]["title"]

            wait_until(lambda: title() == f"tfmuster: {page.parent.name} (running)", 30)
            (tmp_path / "go").touch()
            wait_until(lambda: "later words" in page.read_text(), 30)
            (tmp_path / "end").touch()
            wait_until(lambda: title() == f"tfmuster: {page.parent.name} (done)", 30)
    finally:
        (tmp_path / "go").touch()
        (tmp_path / "end").touch()
        launcher.communicate(timeout=60)
    assert 'http-equiv="refresh"' not in page.read_text()
    written = page.stat().st_mtime_ns
    time.sleep(1)
    assert page.stat().st_mtime_ns == written
