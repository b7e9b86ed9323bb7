"""Several processes append to one file of a run directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

APPEND = """
import sys
from pathlib import Path
from tfmuster.tracking.record.layout import append_json
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
