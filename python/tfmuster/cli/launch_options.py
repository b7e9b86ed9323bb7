"""The options of ``tfmuster launch``, made from the table of :mod:`tfmuster.options.table`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from ..options.rows import ADDRESSES, FLAG, FOLDER, PATH, PATHS, STRINGS, VARIABLES, Kind, Option, Settings
from ..options.table import BACKENDS, PLACES, ROWS, Control, Plain, Waiting, text_of
from .value_types import Number, WholeNumber, refused

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SEVERAL = (STRINGS, PATHS, VARIABLES, ADDRESSES)


def launch_options(command: _Command) -> _Command:
    """Add ``--backend`` and an option for each row that the command line has."""
    backend = click.option(
        "--backend",
        metavar="NAME",
        shell_complete=lambda *asked: [name for name in BACKENDS if name.startswith(asked[-1])],
        help=f"Start the processes with this backend: {', '.join(BACKENDS)}. "
        "Default: ssh if there are hosts, else local.",
    )
    for option in reversed([*_options(Plain, Control), backend, *_options(*PLACES, Waiting)]):
        command = option(command)
    return command


def settings_of(settings: Iterable[type[Settings]], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the options of some classes of the table, by their names in Python."""
    names = {row.name for known in settings for row in known.ROWS.values() if row.flags}
    return {name: _read(ROWS[name], values[name]) for name in names}


def _options(*settings: type[Settings]) -> list[Callable[[Any], Any]]:
    names = dict.fromkeys(name for known in settings for name in known.ROWS)
    return [_option(ROWS[name]) for name in names if ROWS[name].flags]


def _option(row: Option) -> Callable[[_Command], _Command]:
    return click.option(
        *row.flags,
        row.name,
        metavar=row.metavar,
        is_flag=True if row.kind is FLAG else None,
        multiple=row.kind in _SEVERAL,
        type=None if row.kind is FLAG else _type(row.kind),
        envvar=row.variable,
        help=text_of(row, "shell"),
    )


def _type(kind: Kind) -> Any:
    if kind in (PATH, FOLDER):
        return click.Path(file_okay=kind is PATH)
    if kind.least is None:
        return None
    if kind.is_whole:
        return WholeNumber(min=kind.least, max=kind.most)
    return Number(min=kind.least, min_open=kind.is_open)


def _read(row: Option, value: Any) -> Any:
    """Return the value of an option as Python's `launch()` takes it."""
    if row.kind is FLAG:
        return value != row.default
    if row.kind is VARIABLES:
        return _variables(value)
    if row.kind is ADDRESSES:
        return {host: address for host, _, address in (text.partition("=") for text in value)}
    return row.default if value is None else value


def _variables(texts: tuple[str, ...]) -> dict[str, str]:
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and name in os.environ:
            value = os.environ[name]
        elif not (equals and name):
            raise refused("--env", "NAME=VALUE, or the name of a variable that is set here", text)
        variables[name] = value
    return variables
