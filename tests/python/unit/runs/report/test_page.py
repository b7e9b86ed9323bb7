"""The HTML page of a run: markup is tfmuster's alone, and a run may lack everything."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from support.evil_run import Seen, made_run
from tfmuster.tracking.live.states import note_phase
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.report import ReportRenewal, report_html, write_report


def test_nothing_that_was_written_becomes_markup(tmp_path: Path) -> None:
    text = report_html(made_run(tmp_path))
    seen = Seen(text)
    assert seen.ids == ["failure", "summary", "cluster", "curves", "timeline", "logs", "environment"]
    assert not {"script", "img", "link", "iframe", "a", "object", "b"} & set(seen.tags)
    assert not {"src", "href", "onload", "onerror"} & {name for name, _ in seen.attributes}
    assert "url(" not in text and "@import" not in text and "\x1b" not in text and "\x00" not in text
    assert text.count("<svg") == 4  # three metrics and the timeline


def test_a_run_that_has_just_begun_or_lacks_everything(tmp_path: Path) -> None:
    run = Run(tmp_path / "empty")
    run.path.mkdir()
    assert Seen(report_html(run)).ids == ["summary", "cluster", "curves", "logs", "environment"]
    (run.path / "metrics.jsonl").write_text('{"epoch": 1, "loss": 2.0}\n{"epoch": 2, "lo')
    assert report_html(run).count("<circle") == 1
    (run.path / "metrics.jsonl").write_text('{"epoch": 1, "loss": null, "accuracy": 0}\n')
    assert Seen(report_html(run)).ids == ["summary", "cluster", "curves", "logs", "environment"]


def test_a_file_of_a_task_that_is_cut_short_ends_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    renewal = ReportRenewal(run)
    renewal.renew(at_once=True)
    assert not (run.path / "report.html").exists()  # nobody has asked for it
    note_phase(run.path, "worker 0", "training")
    (run.path / "states" / "worker-1.jsonl").write_bytes(b"")
    page = Path(write_report(run))
    assert 'id="timeline"' in page.read_text()

    def fails(_: Run) -> None:
        raise AssertionError("an error that nobody has foreseen")

    monkeypatch.setattr("tfmuster.tracking.show.report.write_report", fails)
    os.utime(page, (0, 0))
    for _ in range(3):
        renewal.renew()
    expected = "tfmuster: the report can't be renewed: AssertionError: an error that nobody has foreseen\n"
    assert capsys.readouterr().err == expected


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def text_of(page: str, section: str) -> str:
    """The text of a section, with one space between words."""
    inside = page.partition(f'<section id="{section}">')[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", inside).split())


def test_local_times_and_a_legend_of_the_timeline(tmp_path: Path, in_new_york: None) -> None:
    run = made_run(tmp_path)
    note_phase(run.path, "worker 0", "testing")
    page = report_html(run)
    assert "started 2025-12-31 19:00:00 took 1 min 0 s" in text_of(page, "summary")
    assert "at 2025-12-31 19:00:30" in text_of(page, "failure")
    drawn = text_of(page, "timeline")
    (begin,) = re.findall(r"Timeline Seconds since ([0-9-]+ [0-9:]+)\. starting waiting", drawn)
    assert abs(time.mktime(time.strptime(begin, "%Y-%m-%d %H:%M:%S")) - time.time()) < 60
    legend = page.partition('<figure class="timeline">')[2].partition("</figcaption>")[0]
    explained = re.findall(r'style="background:(#\w+)"> </span> (\w+)<', legend)
    assert [phase for _, phase in explained] == ["starting", "waiting", "training", "testing"]
    assert all(f'fill="{color}"' in page for color, _ in explained)


def test_the_speed_and_the_waiting_of_each_worker(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    shares = {"sum_share": 0.75, "wait_share": 0.5, "waits_for": "worker 1"}
    told = [
        {"steps_per_second": 20.0, "images_per_second": 1280.0, **shares},
        {"steps_per_second": 19.0, "images_per_second": 1216.0, "sum_share": 0.75, "wait_share": 0.0},
    ]
    for index, measured in enumerate(told):
        note_phase(run.path, f"worker {index}", "trained", measured)
    rows = text_of(report_html(run), "workers").partition("mostly for ")[2]
    assert rows == (
        "worker 0 1,280 images/s, 20.0 steps/s 75% 50% worker 1 worker 1 1,216 images/s, 19.0 steps/s 75% 0%"
    )
