"""A wrong value of any option with a range or a choice: the error says what it takes, and what was given."""

from __future__ import annotations

import click
import pytest

from tfmuster.cli import main
from tfmuster.cli.parameters import Number, OneOf, WholeNumber, refused

from .test_help import ALL

#: What each type says that it takes.
TAKES = {WholeNumber: "a whole number", Number: "a number", OneOf: "one of "}
#: Types of click, whose words are those of a programmer.
STOCK = (click.types.IntParamType, click.types.FloatParamType, click.Choice)


@pytest.mark.parametrize("name", ALL)
def test_an_option_says_what_it_takes(name: str) -> None:
    option = ALL[name]
    if type(option.type) not in TAKES:
        assert not isinstance(option.type, STOCK)
        return
    with pytest.raises(click.UsageError) as caught:
        option.type.convert("wrong", option, None)
    said = caught.value.format_message()
    assert said.startswith(max(option.opts, key=len))
    assert f" takes {TAKES[type(option.type)]}" in said and "\n  found: wrong" in said


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (WholeNumber(min=1), "2.5", "a whole number of at least 1"),
        (WholeNumber(min=1), "0", "a whole number of at least 1"),
        (WholeNumber(1024, 65_535), "80", "a whole number from 1024 to 65535"),
        (WholeNumber(), "x", "a whole number"),
        (Number(0, 1, max_open=True), "1", "a number of at least 0 and below 1"),
        (Number(0, min_open=True), "0", "a number above 0"),
        (Number(0, min_open=True), "nan", "a number above 0"),
        (Number(0, min_open=True), "inf", "a number above 0"),
    ],
)
def test_limits_in_words(kind: click.ParamType, given: str, text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        kind.convert(given, click.Option(["--much"]), None)
    assert caught.value.format_message() == f"--much takes {text}.\n  found: {given}"


def test_values_within_the_limits() -> None:
    assert WholeNumber(min=1).convert("1", None, None) == 1
    assert Number(0, 1).convert("0.5", None, None) == 0.5
    assert OneOf(["json"]).convert("json", None, None) == "json"


def test_a_word_that_is_close_is_suggested() -> None:
    with pytest.raises(click.UsageError) as caught:
        OneOf(["json", "shell"]).convert("jsn", click.Option(["--format"]), None)
    assert caught.value.format_message() == (
        "--format takes one of json, shell.\n  found: jsn\n  to do: Did you mean 'json'?"
    )
    assert "to do" not in refused("--env", "NAME=VALUE", "=5").format_message()


def test_the_command_line_shows_it_after_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-n", "two", "train.py"]) == 2
    assert capsys.readouterr().err == (
        "Usage: tfmuster launch [OPTIONS] SCRIPT|COMMAND [ARGUMENT]...\n"
        "Try 'tfmuster launch --help' for help.\n\n"
        "Error: --workers (-n, -np) takes a whole number of at least 1.\n"
        "  found: two\n"
    )
