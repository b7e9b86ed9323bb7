"""How the JSON of a run directory is written and read."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import pytest

from tfmuster.tracking.record.layout import append_json, read_json, sha256_of


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


@pytest.mark.parametrize("size", [0, 1, 1 << 18, 5_000_001])
def test_the_digest_of_a_file_takes_no_memory_for_its_content(tmp_path: Path, size: int) -> None:
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    (tmp_path / "data").write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    tracemalloc.start()
    try:
        assert sha256_of(tmp_path / "data") == expected
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
