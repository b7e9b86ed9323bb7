"""In which encoding a program writes, by its environment."""

from __future__ import annotations

import pytest

from tfmuster.system.output_encoding import decoded, output_encoding


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
