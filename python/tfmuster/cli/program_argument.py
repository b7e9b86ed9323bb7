"""The program that a verb runs, with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Options of ``tfmuster launch`` that say how many workers there are, and where.
_BEFORE = {
    "workers": ("-n", "-np", "--workers"),
    "hosts": ("-H", "--hosts"),
    "hostfile": ("--hostfile",),
}


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    return [CompletionItem(incomplete, type="file")]


def program_argument(command: _Command, *, metavar: str = "SCRIPT|COMMAND [ARGUMENT]...") -> _Command:
    """Add the argument ``program``."""
    argument = click.argument(
        "program", metavar=metavar, nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=_files
    )
    return argument(command)


def refuse_options_after_script(program: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raise UsageError if an option about the workers stands after a script, and none of it before.

    Arguments after a script are the script's, so the job would run with two workers on this machine. Whoever
    also names the option before the script means both; so does who names hosts, and with them the workers.
    """
    script, *arguments = program
    if Path(script).suffix.lower() not in (".py", ".r"):
        return
    hosts = given.get("hosts") is not None or given.get("hostfile") is not None
    for name, spellings in _BEFORE.items():
        if hosts or given.get(name) is not None:
            continue
        for place, argument in enumerate(arguments):
            if _is_option(argument, spellings):
                value = "" if argument not in spellings else " ".join(arguments[place + 1 : place + 2])
                option = f"{argument} {value}".rstrip()
                raise click.UsageError(
                    f"{option} stands after {script}, so that it belongs to the script. Put it first: "
                    f"tfmuster launch {option} {script}. If it is an option of the script, name launch's own "
                    f"as well: tfmuster launch {spellings[0]} ... {script} {option}"
                )


def _is_option(argument: str, spellings: tuple[str, ...]) -> bool:
    name, _, _ = argument.partition("=")
    if name in spellings:
        return True
    # -n4, as in the options of click.
    return any(len(text) == 2 and argument.startswith(text) and argument[2:].isdigit() for text in spellings)
