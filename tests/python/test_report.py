from __future__ import annotations

import html.parser
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launching import only_run, tfmuster, write
from tfmuster.runs.report import report_html, write_report
from tfmuster.runs.run import Run
from tfmuster.runs.states import note_phase, read_events

CHROMIUM = shutil.which("chromium")
EVIL = "</pre></title><script>document.title='taken'</script><img src='http://127.0.0.1:{port}/x'>"


def made_run(folder: Path, port: int = 1) -> Run:
    """A run whose program and names try everything to become markup."""
    evil = EVIL.format(port=port)
    now = time.time()
    run = Run(folder / "evil'\"&<b>")
    (run.path / "logs").mkdir(parents=True)
    (run.path / "run.json").write_text(
        json.dumps(
            {
                "name": evil,
                "command": ["python", evil],
                "cluster": {"worker": ["a:1", evil]},
                "started": "2026-01-01T00:00:00.000+00:00",
                "host": evil,
                "versions": {evil: evil},
                "git": {"commit": evil, "changed": True},
            }
        )
    )
    tasks = {f"worker {i}": {"state": evil, "pid": 1, "exit_code": i} for i in range(2)}
    status = {"state": "failed", "restarts": 1, "tasks": tasks, "updated": "2026-01-01T00:01:00.000+00:00"}
    (run.path / "status.json").write_text(json.dumps(status))
    for i in range(2):
        (run.path / "logs" / f"worker-{i}.log").write_text(f"{evil}\n\x00\x1b[31mred\x1b[0m \ud7ff\n")
    (run.path / "error.json").write_text(
        json.dumps(
            {
                "time": "2026-01-01T00:00:30.000+00:00",
                "task": "worker 1",
                "host": evil,
                "exit_code": 1,
                "signal": None,
                "error": evil,
                "traceback": f"Traceback (most recent call last):\n{evil}",
                "last_lines": [evil],
                "log": evil,
            }
        )
    )
    with (run.path / "metrics.jsonl").open("w") as file:
        for epoch in range(1, 6):
            values = {"loss": 1 / epoch, "val_loss": 1.1 / epoch, evil: epoch, "accuracy": 0.1 * epoch}
            file.write(json.dumps({"epoch": epoch, "time": now, **values}) + "\n")
    for task in ("worker 0", "worker 1"):
        for phase in ("started", "waiting", "training", evil, "failed", "started", "training", "done"):
            note_phase(run.path, task, phase)
    return run


class Seen(html.parser.HTMLParser):
    """What a parser of HTML finds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]


def browse(page: Path, *options: str) -> str:
    """What headless Chromium says about a page."""
    assert CHROMIUM is not None
    profile = page.parent / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={profile}",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout


def test_nothing_that_was_written_becomes_markup(tmp_path: Path) -> None:
    text = report_html(made_run(tmp_path))
    seen = Seen(text)
    assert seen.ids == ["failure", "summary", "cluster", "curves", "timeline", "logs", "environment"]
    assert not {"script", "img", "link", "iframe", "a", "object", "b"} & set(seen.tags)
    assert not {"src", "href", "onload", "onerror"} & {name for name, _ in seen.attributes}
    assert "url(" not in text and "@import" not in text and "\x1b" not in text and "\x00" not in text
    assert text.count("<svg") == 4  # three metrics and the timeline


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    import tensorflow as tf

    with socket.create_server(("127.0.0.1", 0)) as server:
        run = made_run(tmp_path, server.getsockname()[1])
        page = Path(write_report(run, tmp_path / "page.html"))
        dom = browse(page, "--dump-dom")
        picture = tmp_path / "page.png"
        browse(page, f"--screenshot={picture}", "--window-size=1000,2600", "--force-device-scale-factor=1")
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert Seen(dom).tags.count("script") == 0
    assert "<title>tfmuster: evil'" in dom

    pixels = tf.io.decode_png(picture.read_bytes(), channels=3).numpy().reshape(-1, 3)
    parts = {
        "the state": (0xA3, 0x41, 0x00),
        "training curves and phases": (0x00, 0x72, 0xB2),
        "validation curves": (0xD5, 0x5E, 0x00),
        "waiting": (0xE6, 0x9F, 0x00),
        "starting": (0x99, 0x99, 0x99),
        "output": (0xF5, 0xF5, 0xF5),
    }
    for part, colour in parts.items():
        assert (pixels == colour).all(axis=1).sum() > 20, part


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


def test_a_run_that_has_just_begun_or_lacks_everything(tmp_path: Path) -> None:
    run = Run(tmp_path / "empty")
    run.path.mkdir()
    assert Seen(report_html(run)).ids == ["summary", "cluster", "curves", "logs", "environment"]
    (run.path / "metrics.jsonl").write_text('{"epoch": 1, "loss": 2.0}\n{"epoch": 2, "lo')
    assert report_html(run).count("<circle") == 1
    (run.path / "metrics.jsonl").write_text('{"epoch": 1, "loss": null, "accuracy": 0}\n')
    assert Seen(report_html(run)).ids == ["summary", "cluster", "curves", "logs", "environment"]
