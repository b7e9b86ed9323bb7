"""The HTML page of a run: markup is tfmuster's alone, and a run may lack everything."""

from __future__ import annotations

from pathlib import Path

from support.evil_run import Seen, made_run
from tfmuster.runs.report import report_html
from tfmuster.runs.run import Run


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
