"""Every option says what it does, in the imperative, with its default; its placeholder says what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tfmuster.cli import cli, main
from tfmuster.cli.launch import launch, refuse_options_after_script
from tfmuster.cli.parameters import group_of

#: How help texts begin. "With" and the like say when the option applies, before what it does.
VERBS = re.compile(
    "Accept|Add|Also|Begin|Compare|Connect|Continue|Do|End|Fill|Give|Indent|Install|Keep|Let|"
    "List|Look|Make|Measure|Mount|Multiply|Name|Print|Put|Read|Remove|Rent|Replace|"
    "Request|Restart|Return|Run|Save|Seed|Send|Set|Show|Split|Start|Stop|Take|Train|"
    "Try|Update|Use|Wait|Write"
)


def options(
    command: click.Command, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Option]]:
    context = click.Context(command, parent, command.name, **command.context_settings)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield f"{context.command_path} {parameter.opts[0]}", parameter
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            below = command.get_command(context, verb)
            assert below is not None
            yield from options(below, context)


ALL = {name: option for name, option in options(cli) if "--version" not in name}


@pytest.mark.parametrize("name", ALL)
def test_an_option_says_what_it_does_and_its_default(name: str) -> None:
    option = ALL[name]
    text = option.help or ""
    condition, colon, what = text.partition(": ")
    first = what if colon and condition.split()[0] in ("With", "For", "On", "Slurm") else text
    assert VERBS.fullmatch(first.split()[0].rstrip(",").capitalize()), text
    told = option.show_default or "Default" in text or option.required or "the default" in text
    assert told or option.multiple, text
    assert text.endswith("."), text
    if not option.is_flag and not isinstance(option.type, click.Choice):
        assert (option.metavar and option.metavar not in ("TEXT", "INTEGER", "FLOAT")) or name.endswith(
            "--backend-option"
        )


@pytest.mark.parametrize("name", ALL)
def test_limits_are_words(name: str) -> None:
    option = ALL[name]
    record = option.get_help_record(click.Context(click.Command("any")))
    assert record is None or not re.search(r"[<>=]{1,2}(x|None|[\d.]+\])|x[<>]", record[1]), record


def test_a_limit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "of the hosts, else 2. [at least 1]" in said
    assert "[from 0 to 2147483647]" in said


def test_the_options_of_a_launch_stand_in_groups_the_ten_everyday_ones_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["launch", "--help"]) == 0
    text = capsys.readouterr().out
    headings = re.findall(r"^(\S.*):$", text, re.M)
    assert headings == ["Everyday options", "What to run", "Where", "Failures", "Output"]
    parts = re.split(r"^\S.*:$", text, flags=re.M)[1:]
    listed = [re.findall(r"^  (?:-\w+, )*(--?[a-z-]+)", part, re.M) for part in parts]
    assert len(listed[0]) == 10 and {"--workers", "--hosts", "-m", "--distribute"} < set(listed[0])
    for name, group in (("--ps", 1), ("--backend", 2), ("--grace", 3), ("--only-chief", 4), ("--help", 4)):
        assert name in listed[group]
    declared = [option for option in launch.params if isinstance(option, click.Option)]
    assert all(group_of(option) == option.group for option in declared)  # type: ignore[attr-defined]
    names = [max(option.opts, key=len) for option in declared]
    assert sorted(name for part in listed for name in part) == sorted([*names, "--help"])


def test_a_verb_that_is_misspelled_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lanch"]) == 2
    assert "No such command 'lanch'. Did you mean 'launch'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["train.py", "-n", "4"], "-n 4"),
        (["train.py", "--lr", "1", "-n4"], "-n4"),
        (["train.R", "--workers=4"], "--workers=4"),
        (["-n", "2", "train.py", "-H", "node1"], "-H node1"),
    ],
)
def test_workers_after_the_script_are_refused(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", *arguments]) == 2
    said = capsys.readouterr().err
    script = next(word for word in arguments if word.startswith("train"))
    assert f"{option} stands after {script}" in said and f"launch {option} {script}. If" in said


def test_workers_after_a_module_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-m", "package.train", "-n", "4"]) == 2
    assert "-n 4 stands after -m package.train" in (said := capsys.readouterr().err)
    assert "tfmuster launch -n 4 -m package.train. If" in said


def test_workers_before_the_script_leave_its_options_alone(capsys: pytest.CaptureFixture[str]) -> None:
    # The script is missing, which is all that is wrong.
    for before in (["-n", "2"], ["--"], ["-n", "2", "--"]):
        after = ["-n", "4", "-H", "64"] if before[-1] == "--" else ["-n", "4"]
        assert main(["launch", *before, "no.py", *after]) == 2
        assert "The script to run must exist." in capsys.readouterr().err
    with click.Context(cli):
        for given in ({"hosts": "node1"}, {"hostfile": "hosts"}):
            refuse_options_after_script(("train.py", "-n", "4", "-H", "a"), given, module=False)
