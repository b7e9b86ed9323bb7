"""The HTML page of a run: markup is tfmuster's alone, and a run may lack everything."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from support.evil_run import Seen, made_run
from tfmuster.tracking.live.states import note_phase
from tfmuster.tracking.record.layout import utc_now
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.report import ReportRenewal, report_html, write_report

#: The points of a curve.
POINTS = r'<polyline points="([^"]*)"'


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


def test_every_phase_and_mark_is_in_the_legend(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    for phase in ("importing", "joined", "building", "tracing", "serving", "preempted"):
        note_phase(run.path, "worker 0", phase)
    page = report_html(run)
    figure = page.partition('<figure class="timeline">')[2].partition("</figure>")[0]
    legend, _, drawn = figure.partition("</figcaption>")
    phases = set(re.findall(r"<title>([^<,]*), [\d.]+ s</title>", drawn)) - {"started"}
    marks = set(re.findall(r"<title>([^<,]*)</title></line>", drawn))
    assert marks == {"started", "done", "failed", "preempted"} and len(phases) == 9
    colors = re.findall(r'style="background:(#\w+)"> </span> ([^<]*)</span>', legend)
    assert {phase for _, phase in colors} == phases and len({color for color, _ in colors}) == len(colors)
    assert set(re.findall(r"│</span> (\w+)</span>", legend)) == marks


def test_every_curve_is_in_its_legend_and_the_best_epoch_is_marked(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.path.mkdir()
    losses = [(0.9, 0.8), (0.5, 0.4), (0.3, None), (0.1, 0.6)]
    lines = [
        {"epoch": epoch, "loss": loss, **({} if val is None else {"val_loss": val})}
        for epoch, (loss, val) in enumerate(losses, 1)
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = report_html(run)
    assert page.count("<polyline") == 2
    figure = page.partition('<figure class="curve">')[2].partition("</figure>")[0]
    assert [*Seen(figure).attributes].count(("class", "best")) == 2
    assert "loss ● training ▲ validation ┊ best epoch" in text_of(page, "curves")
    assert "Best epoch: 2 (lowest val_loss, 0.4)" in text_of(page, "curves")
    # Validated each second epoch, or not in one: each point is over its epoch.
    training, validation = (set(re.findall(r"([\d.]+),", points)) for points in re.findall(POINTS, figure))
    assert validation < training
    (at,) = re.findall(r'<line class="best" x1="([\d.]+)"', figure)
    assert at == sorted(map(float, training))[1].__format__(".1f")
    assert "epoch loss val_loss 1 0.9 0.8 2, best 0.5 0.4 3 0.3 4 0.1 0.6" in text_of(page, "curves")
    assert page.count('<tr class="best">') == 1


def test_the_table_of_a_long_training_has_its_end_and_the_best_epoch(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.path.mkdir()
    lines = [{"fit": 2, "epoch": i, "loss": abs(i - 7)} for i in range(1, 301)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = text_of(report_html(run), "curves").partition("Epochs, ")[2]
    assert table.startswith("the last 100 of 300 epoch loss fit 2, 7, best 0 fit 2, 201 194 ")


def test_a_page_about_a_long_training_is_small_and_has_each_spike(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.path.mkdir()
    count, spike, best = 50_000, 31_234, 41_000
    values = [9.0 if n == spike else 0.1 if n == best else 1 + n % 7 / 10 for n in range(1, count + 1)]
    lines = [f'{{"fit": 1, "epoch": {n}, "loss": {value}}}\n' for n, value in enumerate(values, 1)]
    (run.path / "metrics.jsonl").write_text("".join(lines))
    page = report_html(run)
    assert len(page) < 60_000
    points = [tuple(map(float, point.split(","))) for point in re.findall(POINTS, page)[0].split()]
    places = [at for at, _ in points]
    assert places == sorted(places) and (places[0], places[-1]) == (56, 408)
    highest = min(points, key=lambda point: point[1])
    assert highest[0] == round(56 + 352 * (spike - 1) / (count - 1), 1)
    assert sum(y < highest[1] + 50 for _, y in points) == 1
    assert f"Best epoch: {best} (lowest loss, 0.1)" in text_of(page, "curves")
    # The last 100 epochs, and the best one.
    table = page.partition("<summary>Epochs, ")[2].partition("</table>")[0]
    assert table.startswith(f"the last 100 of {count}<") and table.count("<tr") == 1 + 101


def test_without_a_loss_that_is_a_number_no_epoch_is_the_best(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.path.mkdir()
    (run.path / "metrics.jsonl").write_text('{"epoch": 1, "loss": null, "accuracy": 0.5}\n')
    assert "est epoch" not in report_html(run).partition("<body>")[2]


def test_the_page_is_dark_or_light_and_loads_nothing(tmp_path: Path) -> None:
    page = report_html(made_run(tmp_path))
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert "@media (prefers-color-scheme: dark)" in style
    assert 'content="width=device-width, initial-scale=1"' in page and 'content="light dark"' in page
    used = set(re.findall(r"var\((--\w+)\)", style))
    light, dark = (set(re.findall(r"(--\w+):", part)) for part in style.split("@media", 1))
    assert used == light == dark


def test_the_output_is_closed_and_has_alike_lines_once(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    for index in range(2):
        with (run.path / "logs" / f"worker-{index}.log").open("a") as log:
            log.write(f"loss 0.5\nown {index}\n")
    shown = text_of(report_html(run), "logs")
    assert "The last 4 lines of worker 0, worker 1" in shown
    assert shown.endswith("[2 workers] | loss 0.5 worker 0 | own 0 worker 1 | own 1")
    assert "<details>" in report_html(run)
    status = json.loads((run.path / "status.json").read_text())
    info = json.loads((run.path / "run.json").read_text()) | {"host": "elsewhere"}
    (run.path / "run.json").write_text(json.dumps(info))
    (run.path / "status.json").write_text(json.dumps({**status, "state": "running", "updated": utc_now()}))
    assert '<details open="open"><summary>The last 4 lines' in report_html(run)
