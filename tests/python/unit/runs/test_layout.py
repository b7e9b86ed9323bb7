"""How the JSON of a run directory is written and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.runs.layout import append_json, read_json


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
