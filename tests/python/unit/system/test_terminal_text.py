"""A stream of bytes as the lines that a terminal would show."""

from __future__ import annotations

import json

import pytest

from tfmuster.system.terminal_text import (
    Lines,
    decoded,
    is_chatter,
    json_text,
    output_encoding,
    safe_text,
    visible,
)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("1/5 ...\r2/5 ...\r5/5 done", "5/5 done"),
        ("long text\rshort", "shortText".lower()),
        ("1/3\b\b\b2/3\b\b\b3/3", "3/3"),
        ("\b\bx", "x"),
        ("\x1b[1m5/5\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m\x1b[0m loss: 1", "5/5 ━━ loss: 1"),
        ("\x1b]0;title\x07text\x1b[2K", "text"),
        ("tab\tstays, bell\x07 goes  ", "tab\tstays, bell goes"),
        ("\x9b31mred\x9b0m \x9d0;title\x9cshown\x85", "red shown"),
        ("\x1bP1$rcommand\x1b\\shown", "shown"),
        ("rm \u202etxt.exe\u2028next\u2066x\u200f", "rm txt.exenextx"),
        ("\r", ""),
        ("", ""),
    ],
)
def test_a_line_as_a_terminal_shows_it_in_the_end(line: str, shown: str) -> None:
    assert visible(line) == shown


def test_a_text_of_several_lines_keeps_its_lines() -> None:
    assert safe_text("one\x1b[2J\n  two\x9b2J \n\nthree\n") == "one\n  two\n\nthree\n"
    assert safe_text("a:1 \nb\x1b[2J ") == "a:1 \nb"


def test_json_has_no_character_that_changes_a_terminal() -> None:
    value = {"a\x9b31m\u202e": ["größer\x7f\x85\n\x1b[2J", "Klänge ♫ \u2028\u2066"]}
    text = json_text(value)
    assert safe_text(text) == text and "größer" in text and "♫" in text
    assert json.loads(text) == value


def test_lines_are_cut_wherever_the_bytes_are_cut() -> None:
    text = "größer\r\n1/2\r2/2\n\nKlänge ♫\nend without newline"
    expected = ["größer", "2/2", "", "Klänge ♫", "end without newline"]
    for size in (1, 2, 3, 1000):
        lines, data, seen = Lines(), text.encode(), []
        for start in range(0, len(data), size):
            seen += lines.feed(data[start : start + size])
        assert seen + lines.end() == expected
    assert Lines().feed(b"\xff\xfe\n") == ["��"]


def test_lines_that_are_not_utf_8_are_in_the_other_encoding() -> None:
    data = (
        "größer\nKlänge ♫\n".encode() + "größer\rKlänge".encode("latin-1") + b"\n" + "größ".encode("latin-1")
    )
    for size in (1, 3, 1000):
        lines, seen = Lines("iso8859-1"), []
        for start in range(0, len(data), size):
            seen += lines.feed(data[start : start + size])
        assert seen + lines.end() == ["größer", "Klänge ♫", "Klänge", "größ"]
    lines = Lines("iso8859-1")
    # Not within a character.
    assert lines.feed("♫\r".encode() * 30_000 + b"\xc3") == []
    assert lines.feed(b"\xa4\n") == ["♫ä"]
    long = Lines("iso8859-1")
    assert "".join([*long.feed(b"\xe4" * 70_000), *long.end()]) == "ä" * 70_000


def test_a_line_without_end_costs_no_memory() -> None:
    lines = Lines()
    for _ in range(50):
        assert lines.feed(b"\r1/9 step" * 1000) == []
    assert lines.end() == ["1/9 step"]
    shown = [part for _ in range(50) for part in lines.feed(b"x" * 9000)]
    assert sum(map(len, [*shown, *lines.end()])) == 450_000


@pytest.mark.parametrize(
    ("line", "with_gpu", "without"),
    [
        ("I0000 00:00:1795246568.252927   21407 port.cc:153] oneDNN custom operations are on.", True, True),
        ("2024-01-02 03:04:05.678901: I tensorflow/core/util/port.cc:113] oneDNN", True, True),
        (
            "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
            True,
            True,
        ),
        ("/job:worker/replica:0/task:1", True, True),
        (
            "E0000 00:00:1795246577.5   21407 cuda_platform.cc:52] failed call to cuInit: INTERNAL",
            False,
            True,
        ),
        (
            "E0000 00:00:1795578656.812696   20884 util.cc:131] oneDNN supports DT_BOOL only on platforms "
            "with AVX-512. Falling back to the default Eigen-based implementation if present.",
            True,
            True,
        ),
        ("W0000 00:00:1795246261.766259   31812 dataset.cc:997] Input will not be optimized", False, False),
        ("E0000 00:00:1795246577.5   21407 grpc.cc:52] Could not start gRPC server", False, False),
        ("I am worker 0", False, False),
        ("in /job:worker/replica:0/task:1 I0000 00:00:1.5 1 a.cc:1] x", False, False),
    ],
)
def test_tensorflows_chatter_is_told_from_what_matters(line: str, with_gpu: bool, without: bool) -> None:
    assert is_chatter(line, gpu=True) == with_gpu
    assert is_chatter(line, gpu=False) == without


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({}, None),
        ({"LANG": "de_DE.UTF-8"}, None),
        ({"LANG": "C"}, None),
        ({"LANG": "C.UTF-8", "LC_ALL": "POSIX"}, None),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1"),
        ({"LANG": "de_DE.UTF-8", "LC_CTYPE": "de_DE.ISO-8859-15@euro"}, "iso8859-15"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "ru_RU.KOI8-R"}, "koi8-r"),
        ({"LANG": "de_DE.ISO-8859-1", "PYTHONUTF8": "1"}, None),
        ({"LANG": "de_DE.UTF-8", "PYTHONIOENCODING": "latin-1"}, "iso8859-1"),
        ({"LANG": "de_DE.ISO-8859-1", "PYTHONIOENCODING": "utf-8:strict"}, None),
        ({"LANG": "de_DE.ISO-8859-1", "PYTHONIOENCODING": ":replace"}, "iso8859-1"),
        *[({"PYTHONIOENCODING": name}, None) for name in ("utf-16", "base64", "rot13", "no such", "\0")],
    ],
)
def test_output_encoding(environ: dict[str, str], encoding: str | None) -> None:
    assert output_encoding(environ) == encoding


def test_a_language_without_an_encoding_has_its_own() -> None:
    assert output_encoding({"LANG": "de_DE"}) == "iso8859-1"


def test_each_line_decides_by_itself() -> None:
    data = "größer\n".encode() + "größer\n".encode("latin-1")
    assert decoded(data, "iso8859-1") == "größer\ngrößer\n"
    assert decoded(data, None) == "größer\ngr\ufffd\ufffder\n"
