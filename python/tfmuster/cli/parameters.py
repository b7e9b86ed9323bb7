"""Declare the options and arguments of verbs.

The errors of their types say what an option takes, and what was given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from ..options.rows import ADDRESSES, FLAG, FOLDER, GROUPS, PATH, PATHS, STRINGS, VARIABLES, Kind
from ..options.table import ROWS, text_of
from ..words import did_you_mean

if TYPE_CHECKING:
    _Choice = click.Choice[str]
    _ParamType = click.ParamType[Any, Any]
else:  # releases of click before 8.2 have no type arguments here
    _Choice, _ParamType = click.Choice, click.ParamType

#: What adds options or arguments to a verb.
Decorator = Callable[[Any], Any]
#: Kinds of rows that may be given several times.
_SEVERAL = (STRINGS, PATHS, VARIABLES, ADDRESSES)


class GroupedOption(click.Option):
    """An option of a group of the help text, which `format_groups` writes."""

    def __init__(self, *args: Any, group: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group


def format_groups(
    parameters: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options of a verb in groups."""
    groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in GROUPS}
    for parameter in parameters:
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)):
            groups[group_of(parameter)].append(record)
    for heading, records in groups.items():
        with formatter.section(heading):
            formatter.write_dl(records)


def group_of(option: click.Option) -> str:
    """Return the group of an option, which is the last for those of click, such as ``--help``."""
    return getattr(option, "group", "") or GROUPS[-1]


def option(
    spelled: str, help: str, kind: _ParamType | None = None, *, name: str | None = None, **settings: Any
) -> Decorator:
    """Declare an option. `help` gets its default, unless the text says it.

    `spelled` has its spellings and its placeholder: ``-n, --workers N``. Without a placeholder and a kind it
    is a switch; the default kind is text. `name` is the name of the verb's argument, by default the longest
    spelling. `settings` are those of `click.option`, and ``group``.
    """
    *spellings, last = spelled.split(", ")
    last, _, metavar = last.partition(" ")
    if metavar:
        settings["metavar"] = metavar
    elif kind is None and "/" not in last:
        settings["is_flag"] = True
    if settings.get("required"):
        help += " Required."
    settings.setdefault("show_default", settings.get("default") is not None and "Default: " not in help)
    names = [] if name is None else [name]
    return click.option(*spellings, last, *names, cls=GroupedOption, type=kind, help=help, **settings)


def row_option(name: str) -> Decorator:
    """Declare the option of a row of :mod:`tfmuster.options.table`."""
    row = ROWS[name]
    is_switch = row.kind is FLAG
    return click.option(
        *row.flags,
        row.name,
        cls=GroupedOption,
        group=row.group,
        metavar=row.metavar,
        is_flag=True if is_switch else None,
        multiple=row.kind in _SEVERAL,
        type=None if is_switch else _type_of(row.kind),
        envvar=row.variable,
        help=text_of(row, "shell"),
    )


def _type_of(kind: Kind) -> _ParamType | None:
    if kind in (PATH, FOLDER):
        return click.Path(file_okay=kind is PATH)
    if kind.least is None:
        return None
    if kind.is_whole:
        return WholeNumber(min=kind.least, max=kind.most)
    return Number(min=kind.least, min_open=kind.is_open)


def all_of(*declared: Decorator) -> Decorator:
    """Return a decorator that adds several options, in this order."""
    return lambda verb: functools.reduce(lambda below, declare: declare(below), reversed(declared), verb)


def program_argument(metavar: str = "SCRIPT|COMMAND [ARGUMENT]...") -> Decorator:
    """Declare the argument ``program``: a program with its arguments, which are the last words."""
    return click.argument(
        "program",
        metavar=metavar,
        nargs=-1,
        required=True,
        type=click.UNPROCESSED,
        shell_complete=lambda _, __, incomplete: [CompletionItem(incomplete, type="file")],
    )


#: For verbs that run a program: options end at its name, and words after it are its own.
ENDS_AT_PROGRAM: Final = {"allow_interspersed_args": False}


def refused(
    option: click.Parameter | str | None, takes: str, value: object, fix: str | None = None
) -> click.UsageError:
    """Return the error for a value that an option doesn't take."""
    text = f"{_name_of(option)} takes {takes}.\n  found: {value}"
    return click.UsageError(f"{text}\n  to do: {fix}" if fix else text)


def _name_of(option: click.Parameter | str | None) -> str:
    """Return the longest spelling of an option, and the others in parentheses."""
    if isinstance(option, str):
        return option
    if not isinstance(option, click.Option):
        return (option and option.name) or "the argument"
    longest = max(option.opts, key=len)
    others = ", ".join(spelling for spelling in option.opts if spelling != longest)
    return f"{longest} ({others})" if others else longest


class _Limited(_ParamType):
    """A finite number whose limits the help text shows in words."""

    min: Any
    max: Any
    min_open: bool
    max_open: bool
    what: str

    def _describe_range(self) -> str:
        # click shows what this method of its ranges returns, in brackets.
        return self._limits().removeprefix(" of").strip()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isfinite(number):
            return number
        raise refused(param, f"{self.what}{self._limits()}", value)

    def _limits(self) -> str:
        """Return the limits in words, after a blank; "" without limits."""
        if self.min is not None and self.max is not None and not (self.min_open or self.max_open):
            return f" from {self.min} to {self.max}"
        limits = []
        if self.min is not None:
            limits.append(f"above {self.min}" if self.min_open else f"of at least {self.min}")
        if self.max is not None:
            limits.append(f"below {self.max}" if self.max_open else f"at most {self.max}")
        return f" {' and '.join(limits)}" if limits else ""


class WholeNumber(_Limited, click.IntRange):
    """A whole number, maybe with limits."""

    what = "a whole number"


class Number(_Limited, click.FloatRange):
    """A finite number, maybe with limits."""

    what = "a number"


class OneOf(_Choice):
    """One of several words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            takes = f"one of {', '.join(self.choices)}"
            raise refused(param, takes, value, did_you_mean(value, self.choices)) from None
