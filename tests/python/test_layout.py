"""How the JSON of a run directory is written and read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tfmuster.runs.layout import append_json, read_json

APPEND = """
import sys
from pathlib import Path
from tfmuster.runs.layout import append_json
for number in range(200):
    append_json(Path(sys.argv[1]), {"who": sys.argv[2], "number": number, "long": "x" * 5000})
"""


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    processes = [subprocess.Popen([sys.executable, "-c", APPEND, path, name]) for name in "ab"]
    assert [process.wait(30) for process in processes] == [0, 0]
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for name in "ab":
        assert [line["number"] for line in lines if line["who"] == name] == list(range(200))


def test_a_number_that_json_does_not_have_is_null(tmp_path: Path) -> None:
    append_json(tmp_path / "lines.jsonl", {"loss": float("nan"), "most": float("inf")})
    append_json(tmp_path / "lines.jsonl", {"loss": 1.5})
    assert (tmp_path / "lines.jsonl").read_bytes() == b'{"loss":null,"most":null}\n{"loss":1.5}\n'


def test_a_line_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        append_json(tmp_path / "none" / "lines.jsonl", {})


@pytest.mark.parametrize("content", [None, b"", b'{"half": ', b"[1]", b"\xff"])
def test_what_is_no_object_reads_as_an_empty_one(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    assert read_json(tmp_path / "run.json") == {}
