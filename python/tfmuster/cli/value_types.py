"""Types of the values of options, whose errors say what the option takes, and what was given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from ..words import did_you_mean

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # releases of click before 8.2 have no type argument here
    _Choice = click.Choice


def refused(
    option: click.Parameter | str, takes: str, given: object, fix: str | None = None
) -> click.UsageError:
    """Return the error for a value that an option doesn't take."""
    text = f"{_name(option)} takes {takes}.\n  found: {given}"
    return click.UsageError(f"{text}\n  to do: {fix}" if fix else text)


def _name(option: click.Parameter | str) -> str:
    """Return the longest spelling of an option, and the others in parentheses."""
    if isinstance(option, str):
        return option
    if isinstance(option, click.Argument):
        return option.name or "the argument"
    longest = max(option.opts, key=len)
    others = ", ".join(spelling for spelling in option.opts if spelling != longest)
    return f"{longest} ({others})" if others else longest


class _Limited:
    """A number whose limits the help text shows in words."""

    min: Any
    max: Any
    min_open: bool
    max_open: bool

    def _describe_range(self) -> str:
        # click shows what this method of its ranges returns, in brackets.
        return _limits(self).removeprefix(" of").strip()


class WholeNumber(_Limited, click.IntRange):
    """A whole number, maybe with limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            raise refused(param or "the option", f"a whole number{_limits(self)}", value) from None


class Number(_Limited, click.FloatRange):
    """A finite number, maybe with limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isfinite(number):
            return number
        raise refused(param or "the option", f"a number{_limits(self)}", value)


class OneOf(_Choice):
    """One of several words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            takes = f"one of {', '.join(self.choices)}"
            raise refused(param or "the option", takes, value, did_you_mean(value, self.choices)) from None


def _limits(of: _Limited) -> str:
    """Return the limits of a number in words, after a blank; "" without limits."""
    if of.min is not None and of.max is not None and not (of.min_open or of.max_open):
        return f" from {of.min} to {of.max}"
    limits = []
    if of.min is not None:
        limits.append(f"above {of.min}" if of.min_open else f"of at least {of.min}")
    if of.max is not None:
        limits.append(f"below {of.max}" if of.max_open else f"at most {of.max}")
    return f" {' and '.join(limits)}" if limits else ""
