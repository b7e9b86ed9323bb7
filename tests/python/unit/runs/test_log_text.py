"""The last lines of a log, without reading the rest."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tfmuster.runs import log_text
from tfmuster.runs.log_text import last_lines
from tfmuster.runs.run import Run
from tfmuster.runs.tail import Tail


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    "text", ["", "a", "a\n", "a\nbb\n", "a\nbb\nccc", "\n\n\n", "\u00e9\n\U0001f600\n", "a\rb\nc\n"]
)
def test_last_lines_are_those_of_the_whole_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block: int
) -> None:
    monkeypatch.setattr(log_text, "BLOCK", block)
    path = tmp_path / "worker-0.log"
    path.write_bytes(text.encode())
    whole = [line + "\n" for line in text.split("\n")]
    whole[-1:] = [text.rpartition("\n")[2]] if not text.endswith("\n") and text else []
    for lines in range(6):
        assert last_lines(path, lines) == "".join(whole[-lines:] if lines else []), lines


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
