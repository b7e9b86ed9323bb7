"""Lines that all tasks print alike are shown once; a task's lines stay in order, and none is lost."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from tfmuster.tracking.run import Run
from tfmuster.tracking.show import fold
from tfmuster.tracking.show.fold import Fold
from tfmuster.tracking.show.tail import Tail, folded, log_lines

WORKERS = ("worker 0", "worker 1")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fold, "time", made)
    return made


def test_a_line_of_all_is_shown_when_the_last_prints_it(clock: Clock) -> None:
    shown = Fold(WORKERS)
    shown.add("worker 0", ["loss 1", "loss 2"])
    assert shown.due() == []
    shown.add("worker 1", ["loss 1"])
    assert shown.due() == ["[2 workers] | loss 1"]
    shown.add("worker 1", ["loss 2"])
    assert shown.due() == ["[2 workers] | loss 2"]


def test_a_line_of_one_is_shown_with_its_name_after_the_window(clock: Clock) -> None:
    shown = Fold(WORKERS, seconds=1.0)
    shown.add("worker 0", ["mine"])
    clock.now = 0.9
    assert shown.due() == []
    clock.now = 1.0
    assert shown.due(wait=True) == []
    assert shown.due() == ["worker 0 | mine"]
    shown.add("worker 1", ["mine"])
    clock.now = 2.0
    assert shown.due() == ["worker 1 | mine"]


def test_a_line_before_one_that_all_have_printed_does_not_wait(clock: Clock) -> None:
    shown = Fold(WORKERS)
    shown.add("worker 0", ["bar of the chief", "end"])
    shown.add("worker 1", ["warning", "end"])
    assert shown.due() == ["worker 0 | bar of the chief", "worker 1 | warning", "[2 workers] | end"]


def test_lines_of_several_workers_are_not_interleaved(clock: Clock) -> None:
    shown = Fold(WORKERS)
    for i in range(3):
        shown.add("worker 0", [f"a{i}"])
        shown.add("worker 1", [f"b{i}"])
    assert shown.due(last=True) == [f"worker {w} | {x}{i}" for w, x in enumerate("ab") for i in range(3)]


def test_names_of_some_of_many(clock: Clock) -> None:
    tasks = [f"worker {i}" for i in range(6)]
    shown = Fold(tasks)
    for task in tasks[:2]:
        shown.add(task, ["two"])
    for task in tasks[:5]:
        shown.add(task, ["five"])
    for task in tasks:
        shown.add(task, ["all"])
    assert shown.due() == [
        "[worker 0, worker 1] | two",
        "[5 of 6 workers] | five",
        "[6 workers] | all",
    ]
    mixed = Fold(["chief 0", "worker 0"])
    mixed.add("worker 0", ["own", "same"])
    mixed.add("chief 0", ["same"])
    assert mixed.due() == ["worker 0 | own", "[2 tasks] | same"]


def test_a_worker_that_has_ended_is_not_waited_for(clock: Clock) -> None:
    shown = Fold(WORKERS)
    shown.add("worker 0", ["last words"])
    shown.end("worker 1")
    assert shown.due() == ["worker 0 | last words"]


def test_the_same_line_twice_is_two_lines(clock: Clock) -> None:
    shown = Fold(WORKERS)
    shown.add("worker 0", ["", "", "x"])
    shown.add("worker 1", ["", "x", ""])
    seen = shown.due(last=True)
    assert sorted(seen) == sorted(["[2 workers] | ", "worker 0 | ", "[2 workers] | x", "worker 1 | "])


def test_times_and_processes_in_logs_of_tensorflow_do_not_differ(clock: Clock) -> None:
    shown = Fold(WORKERS)
    for index, task in enumerate(WORKERS):
        shown.add(
            task,
            [
                f"E0000 00:00:179557865{index}.812696   2088{index} util.cc:131] oneDNN supports",
                f"2026-11-28 14:57:4{index}.123456: W tensorflow/core/x.cc:1] careful",
                f"loss of 2026-11-28 14:57:4{index}",
            ],
        )
    assert [line[:12] for line in shown.due(last=True)] == [
        "[2 workers] ",
        "[2 workers] ",
        "worker 0 | l",
        "worker 1 | l",
    ]


def test_all_output_shows_each_line(clock: Clock) -> None:
    shown = Fold(WORKERS, all_output=True)
    for task in WORKERS:
        shown.add(task, ["same"])
    assert shown.due() == ["worker 0 | same", "worker 1 | same"]


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_and_each_task_keeps_its_order(
    seed: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "_MOST_LINES", 20)
    monkeypatch.setattr(fold, "_MOST_NAMES", 9)
    chance = random.Random(seed)
    tasks = [f"worker {i}" for i in range(chance.randint(2, 5))]
    shown, seen = Fold(tasks), []
    printed: dict[str, list[str]] = {task: [] for task in tasks}
    for _ in range(200):
        task = chance.choice(tasks)
        lines = [chance.choice("abcdef") for _ in range(chance.randint(0, 8))]
        printed[task] += lines
        shown.add(task, lines)
        clock.now += chance.choice((0.0, 0.0, 0.3, 2.0))
        if chance.random() < 0.5:
            seen += shown.due()
    seen += shown.due(last=True)
    every = f"[{len(tasks)} workers]"
    for task in tasks:
        own = [line[-1] for line in seen if line.startswith(every) or task in line.partition(" | ")[0]]
        assert own == printed[task]
    assert any(line.startswith("[") for line in seen)


def test_little_memory_for_much_output(clock: Clock) -> None:
    shown = Fold(WORKERS)
    tracemalloc.start()
    try:
        lines = 0
        for block in range(100):
            shown.add("worker 0", [f"{block} {i} {100 * 'x'}" for i in range(500)])
            lines += len(shown.due())
        assert lines >= 49_000
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()
    assert lines + len(shown.due(last=True)) == 50_000


def test_logs_are_folded_however_long(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    common = [f"line {i} {60 * '-'}" for i in range(5000)]
    for index in range(2):
        own = [f"only {index}"] * (1 + 500 * index)
        lines = [*own, *common[:4000], *own, *common[4000:]]
        (tmp_path / "logs" / f"worker-{index}.log").write_text("\n".join(lines) + "\n")
    run = Run(tmp_path)
    shown = log_lines(run)
    assert [line for line in shown if line.startswith("[")] == [f"[2 workers] | {line}" for line in common]
    assert shown.count("worker 0 | only 0") == 2 and shown.count("worker 1 | only 1") == 1002
    assert len(log_lines(run, all_output=True)) == 11_004 and len(log_lines(run, "worker 0")) == 5002
    assert log_lines(run, lines=1) == [f"[2 workers] | {common[-1]}"]
    tail = Tail(run)
    assert [*tail.new_lines(), *tail.new_lines(last=True)] == shown


def test_folded_logs_of_names_that_a_terminal_must_not_show() -> None:
    seen = folded({"worker \x1b[2J0": ["x"], "worker 1": ["y"]})
    assert sorted(seen) == ["worker 0 | x", "worker 1 | y"]
