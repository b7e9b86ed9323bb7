"""The last lines of a log, without reading the rest."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from support.clock import in_time
from tfmuster.system import regular_files
from tfmuster.tracking.record.layout import write_json
from tfmuster.tracking.record.log_text import last_lines
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.tail import Tail, log_lines


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    "text", ["", "a", "a\n", "a\nbb\n", "a\nbb\nccc", "\n\n\n", "\u00e9\n\U0001f600\n", "a\rb\nc\n"]
)
def test_last_lines_are_those_of_the_whole_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block: int
) -> None:
    monkeypatch.setattr(regular_files, "BLOCK", block)
    path = tmp_path / "worker-0.log"
    path.write_bytes(text.encode())
    whole = [line + "\n" for line in text.split("\n")]
    whole[-1:] = [text.rpartition("\n")[2]] if not text.endswith("\n") and text else []
    for lines in range(6):
        assert last_lines(path, lines) == "".join(whole[-lines:] if lines else []), lines


def test_the_logs_of_a_run_are_in_its_encoding(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"encoding": "iso8859-1"})
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker-0.log").write_bytes("größer\n".encode() + "größer\n".encode("latin-1"))
    run = Run(tmp_path)
    assert run.logs() == {"worker 0": "größer\ngrößer\n"}
    assert run.logs(lines=1) == {"worker 0": "größer\n"}
    assert log_lines(run) == ["worker 0 | größer"] * 2
    # A run.json of somebody who wants to read other things.
    for odd in ("base64", "utf-16", 5, "no such"):
        write_json(tmp_path / "run.json", {"encoding": odd})
        assert run.encoding is None
        assert log_lines(run) == ["worker 0 | größer", "worker 0 | gr\ufffd\ufffder"]


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_of_a_long_line_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(regular_files, "BLOCK", block)
    monkeypatch.setattr(regular_files, "_LONGEST", 20)
    path = tmp_path / "worker-0.log"
    path.write_bytes(
        b"first\n" + b"\rstep 1" * 50 + b"\rstep 2\n" + b"x" * 100 + b"y" * 20 + b"\n" + b"z" * 20
    )
    whole = ["first\n", "\rstep 1\rstep 2\n", "y" * 20 + "\n", "z" * 20]
    for lines in range(1, 6):
        assert last_lines(path, lines) == "".join(whole[-lines:])


def test_only_the_end_of_a_file_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_files, "BLOCK", 10)
    monkeypatch.setattr(regular_files, "_MOST_READ", 30)
    path = tmp_path / "worker-0.log"
    path.write_bytes(b"first\n" + b"x" * 100 + b"\nlast\n")
    assert last_lines(path, 5) == "x" * 24 + "\nlast\n"


def test_a_large_log_without_line_ends_takes_little_memory_and_time(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with (tmp_path / "logs" / "worker-0.log").open("wb") as file:
        file.write(b"before\n")
        for step in range(40):
            file.write(b"\rstep %012d" % step * 60_000)
    begun = time.monotonic()
    tracemalloc.start()
    try:
        shown = log_lines(Run(tmp_path), lines=5)
        assert shown == ["worker 0 | before", "worker 0 | step 000000000039"]
        assert tracemalloc.get_traced_memory()[1] < 15e6
    finally:
        tracemalloc.stop()
    assert in_time(begun, 5)


def test_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with (tmp_path / "logs" / "worker-0.log").open("wb") as file:
        for _ in range(40):
            file.write(1000 * (b"y" * 999 + b"\n"))
    run = Run(tmp_path)
    tracemalloc.start()
    try:
        assert run.logs(lines=2)["worker 0"] == 2 * ("y" * 999 + "\n")
        assert sum(1 for _ in Tail(run).each_new_line(last=True)) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 15e6
    finally:
        tracemalloc.stop()
