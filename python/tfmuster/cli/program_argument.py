"""The program that a verb runs, with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..options.table import ROWS

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Options of ``tfmuster launch`` that say how many workers there are, and where.
_BEFORE = {name: ROWS[name].flags for name in ("workers", "hosts", "hostfile")}

#: Whether ``--`` stands before the program, in the context's notes.
_SEPARATED = f"{__name__}.separated"


def _files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    return [CompletionItem(incomplete, type="file")]


def program_argument(command: _Command, *, metavar: str = "SCRIPT|COMMAND [ARGUMENT]...") -> _Command:
    """Add the argument ``program``."""
    argument = click.argument(
        "program", metavar=metavar, nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=_files
    )
    return argument(command)


class ProgramCommand(click.Command):
    """A command whose arguments end with a program, maybe after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and remember whether ``--`` stands before the program."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        program = ctx.params.get("program") or ()
        ctx.meta[_SEPARATED] = given[: len(given) - len(program)][-1:] == ["--"]
        return rest


def refuse_options_after_script(program: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raise UsageError if an option about the workers stands after a script, and none of it before.

    Arguments after a script are the script's, so the job would run with two workers on this machine. Whoever
    writes ``--`` before the script, or also names the option there, means the script's. Hosts also say how
    many workers there are.
    """
    script, *arguments = program
    if Path(script).suffix.lower() not in (".py", ".r") or click.get_current_context().meta.get(_SEPARATED):
        return
    if given.get("hosts") is not None or given.get("hostfile") is not None:
        return
    for name, spellings in _BEFORE.items():
        if given.get(name) is not None:
            continue
        for place, argument in enumerate(arguments):
            if _is_option(argument, spellings):
                value = "" if argument not in spellings else " ".join(arguments[place + 1 : place + 2])
                option = f"{argument} {value}".rstrip()
                raise click.UsageError(
                    f"{option} stands after {script}, so that it belongs to the script. Put it first: "
                    f"tfmuster launch {option} {script}. If it is an option of the script, write -- before "
                    f"the script: tfmuster launch -- {script} {option}"
                )


def _is_option(argument: str, spellings: tuple[str, ...]) -> bool:
    name, _, _ = argument.partition("=")
    if name in spellings:
        return True
    # -n4, as in the options of click.
    return any(len(text) == 2 and argument.startswith(text) and argument[2:].isdigit() for text in spellings)
