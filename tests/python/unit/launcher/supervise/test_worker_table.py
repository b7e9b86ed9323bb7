"""The table of the workers on terminals of any width, and in a notebook."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tfmuster.launcher.supervise.worker_table import Row, table_html, time_left, worker_table
from tfmuster.tracking.live.states import State

TRAINING = State(
    "training",
    epoch=3,
    epochs=10,
    step=45,
    steps=300,
    metrics={"loss": 0.1234, "accuracy": 0.9876},
    steps_per_second=10.0,
    images_per_second=12_345.0,
    sum_share=0.4,
    wait_share=0.31,
    waits_for="worker 11",
)
ROWS: list[Row] = [(f"worker {i}", "a-host-with-a-long-name", TRAINING) for i in (0, 11)]


def shown(rows: list[Row], width: int, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(worker_table(rows, width=width, height=height))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_keeps_names_time_left_and_who_waits(width: int) -> None:
    head, _, *rows = shown(ROWS, width)
    assert head.split("  ")[0] == "worker" and "host" not in head
    assert [row[:9].strip() for row in rows] == ["worker 0", "worker 11"]
    for row in rows:
        assert len(row) <= width
        assert "3 min 56 s" in row and "31% worker 11" in row and "epoch 3/10" in row


def test_hosts_that_differ_are_shown_on_a_narrow_terminal() -> None:
    rows: list[Row] = [("worker 0", "node1", TRAINING), ("worker 1", "node2", TRAINING)]
    head, _, *lines = shown(rows, 80)
    assert "host" in head
    assert all(host in line for host, line in zip(("node1", "node2"), lines, strict=True))


def test_a_wide_terminal_shows_everything_and_no_empty_column() -> None:
    assert "a-host-with-a-long-name" in shown(ROWS, 160)[2] and "12,345 images/s" in shown(ROWS, 160)[2]
    starting: list[Row] = [("worker 0", "node1", State("starting"))]
    assert shown(starting, 120)[0].split() == ["worker", "host", "state"]


def test_many_workers_are_counted() -> None:
    rows: list[Row] = [(f"worker {i}", "node1", TRAINING) for i in range(100)]
    lines = shown(rows, 80, height=20)
    assert lines[-1].split()[:2] == ["94", "more"] and lines[-1].endswith("94 training")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (TRAINING, "3 min 56 s"),
        (State("training", epoch=1, epochs=1, step=5, steps=10, steps_per_second=2.0), "2.5 s"),
        (State("training", epoch=1, epochs=2, step=5, steps_per_second=2.0), ""),
        (State("training", epoch=1, epochs=2, step=1, steps=10), ""),
        (State("testing"), ""),
    ],
)
def test_the_time_left_is_that_of_the_whole_training(state: State, text: str) -> None:
    assert time_left(state) == text


def test_a_notebook_gets_no_markup_of_a_program() -> None:
    text = table_html([("worker 0", "<b>host</b>", State("<script>")), *ROWS], 3.2)
    assert "<script>" not in text and "&lt;script&gt;" in text and "&lt;b&gt;host" in text
    assert '<progress max="3000" value="645">' in text and text.endswith(" 3 s")
