"""Describe a setting of a launch by one row, and make classes of settings from rows.

A row is a field of a class of :mod:`.table`::

    grace: float | None = option(SECONDS, default=None, help="Let workers take this long to save.")

The name, the type and the default are those of the field. The classes that have the field are the places
where the setting is known. The kind of value says what is refused. The text is written once: it is the help
of the command line and, with `more`, the documentation in Python and R. ``{grace}`` in it is another setting,
which each face spells in its own way.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..environment import LARGEST_SEED, VERIFICATIONS
from ..errors import LaunchError
from ..words import Face, Value, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Do nothing: the decorator is for type checkers, and typing has it from Python 3.11 on."""
        return lambda cls: cls


#: Longest time that may be set, in seconds.
_MOST_SECONDS = 1e9

#: The groups of options in the help of ``tfmuster launch``, in this order.
GROUPS = EVERYDAY, PROGRAM, WHERE, FAILURES, OUTPUT = (
    "Everyday options",
    "What to run",
    "Where",
    "Failures",
    "Output",
)


@dataclass(frozen=True)
class Kind:
    """What values a setting takes. None is also taken where it is the default."""

    #: The name of the check in R, in ``argument_kinds``.
    name: str
    #: The end of "`grace` must be ...".
    says: str
    #: Returns whether a value is one.
    fits: Callable[[object], bool]
    #: Returns a value in the form in which it is kept.
    clean: Callable[[Any], Any] = lambda value: value
    #: The value in the help of the command line, unless the row names another.
    metavar: str | None = None
    #: Limits of a number; `is_open` leaves the least out.
    least: int | None = None
    most: int | None = None
    is_open: bool = False
    is_whole: bool = False


def whole(name: str, says: str, least: int, most: int | None = None) -> Kind:
    """Return the kind of whole numbers from `least` to `most`."""

    def fits(value: Any) -> bool:
        return type(value) is int and least <= value <= (value if most is None else most)

    return Kind(name, says, fits, metavar="N", least=least, most=most, is_whole=True)


def seconds(name: str, says: str, *, is_open: bool) -> Kind:
    """Return the kind of times, above 0 or from 0 on."""

    def fits(value: Any) -> bool:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        return number and (value > 0 if is_open else value >= 0) and value < _MOST_SECONDS

    return Kind(name, says, fits, metavar="SECONDS", least=0, is_open=is_open)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are(is_one: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return a check of one value or a sequence of them."""
    return lambda value: is_one(value) or (isinstance(value, Sequence) and all(map(is_one, value)))


def _are_variables(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_text(part) for item in value.items() for part in item)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if _is_path(value) else tuple(value)


FLAG = Kind("flag", "True or False", lambda value: isinstance(value, bool))
NAME = Kind("name", "one string", _is_text)
PATH = Kind("name", "one path", _is_path, metavar="PATH")
FOLDER = replace(PATH, says="the path of a folder")
STRINGS = Kind("strings", "strings", _are(_is_text), _as_tuple, "TEXT")
PATHS = Kind("strings", "paths", _are(_is_path), _as_tuple, "PATH")
HOSTS = replace(STRINGS, clean=lambda value: ",".join(_as_tuple(value)), metavar="HOST:SLOTS,...")
COUNT = whole("count", "a whole number of at least 1", 1)
NUMBER = whole("number", "a whole number of at least 0", 0)
SHARE = whole("share", "a whole number of at least 0", 0)
SEED = whole("seed", f"a whole number from 0 to {LARGEST_SEED}", 0, LARGEST_SEED)
SECONDS = seconds("seconds", "a positive number of seconds", is_open=True)
LIMIT = seconds("limit", "a number of seconds, or 0 for no limit", is_open=False)
VARIABLES = Kind("variables", 'strings by name, such as {"OMP_NUM_THREADS": "1"}', _are_variables, dict)
ADDRESSES = Kind("", "addresses by host", _are_variables, dict)
VERIFICATION = Kind(
    "verification", f"one of {', '.join(VERIFICATIONS)}", lambda value: value in VERIFICATIONS
)
#: What an engine checks itself.
OBJECT = Kind("", "an object", lambda value: True)


@dataclass(frozen=True)
class Option:
    """A row of the table."""

    #: The name in Python and R.
    name: str
    kind: Kind
    default: Any
    #: What it does, for all faces.
    help: str
    #: Its group in the help of the command line; "" if the command line does not have it.
    group: str = ""
    #: What Python's and R's documentation say in addition.
    more: str = ""
    #: Spellings on the command line: the one of messages first, the complete one last. Of a switch that is on
    #: by default, they turn it off. Default: its name. () if the command line does not have it.
    flags: tuple[str, ...] = ()
    #: The value in the help of the command line. Default: that of the kind.
    metavar: str | None = None
    #: An environment variable that sets it on the command line.
    variable: str | None = None
    faces: tuple[Face, ...] = ("shell", "python", "r")
    #: Whether the command line ignores it with an engine that does not know it. Otherwise it is refused.
    else_ignored: bool = False

    def named(self, name: str) -> Option:
        """Return the row of a field of this name."""
        flags = (f"--{name.replace('_', '-')}",) if "shell" in self.faces else ()
        return replace(self, name=name, flags=self.flags or flags, metavar=self.metavar or self.kind.metavar)

    @property
    def flag(self) -> str:
        """The complete spelling on the command line."""
        return self.flags[-1]

    def text(self, face: Face, spelled: Mapping[str, str]) -> str:
        """Return what the setting does, for one face. `spelled` has the names in braces."""
        first, default, last = self.help.partition(" Default: ")
        more = f" {self.more}" if self.more and face != "shell" else ""
        return f"{first}{more}{default}{last}".format_map(spelled).replace(
            "`", "``" if face == "python" else "`"
        )

    def check(self, value: object) -> object:
        """Return a value in the form that is kept. Raises LaunchError (reason ``argument``) if refused."""
        if not (self.kind.fits(value) or (value is None and self.default is None)):
            raise LaunchError(
                f"`{self.name}` must be {self.kind.says}.", found=str(Value(value)), reason="argument"
            )
        return value if value is None else self.kind.clean(value)

    def on_command_line(self, value: object) -> list[str]:
        """Return a value as options of ``tfmuster launch``; [] for the default."""
        if value == self.default or not self.flags:
            return []
        if self.kind is FLAG:
            return [self.flag]
        if isinstance(value, Mapping):
            return [f"{self.flag}={name}={text}" for name, text in value.items()]
        values = value if isinstance(value, tuple) else (value,)
        return [f"{self.flag}={os.fspath(one) if _is_path(one) else one}" for one in values]


def option(kind: Kind, *, default: Any, help: str, kw_only: bool = True, **more: Any) -> Any:
    """Declare a row; `more` are other arguments of :class:`Option`.

    `kw_only` is for type checkers; see `Settings.UNNAMED`.
    """
    metadata = {"row": Option("", kind, default, help, **more)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Settings:
    """Settings that are rows, with the values of one launch. They can't be changed."""

    #: Settings that may be passed without their names; the last takes all others if it begins with "*".
    UNNAMED: ClassVar[tuple[str, ...]] = ()
    ROWS: ClassVar[Mapping[str, Option]] = {}

    def __init_subclass__(cls) -> None:
        """Make a class of rows from its fields, and document them."""
        super().__init_subclass__()
        dataclass(frozen=True, init=False, repr=False)(cls)
        cls.ROWS = {
            declared.name: declared.metadata["row"].named(declared.name)
            for declared in fields(cls)  # type: ignore[arg-type]
            if "row" in declared.metadata
        }
        public = cls.public("python")
        unnamed = [name.lstrip("*") for name in cls.UNNAMED]
        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [
            inspect.Parameter(name.lstrip("*"), inspect.Parameter.VAR_POSITIONAL)
            if name.startswith("*")
            else inspect.Parameter(name, positional, default=cls.ROWS[name].default)
            for name in cls.UNNAMED
        ]
        parameters += [
            inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default)
            for row in public
            if row.name not in unnamed
        ]
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    if not TYPE_CHECKING:

        def __init__(self, *unnamed: object, **named: object) -> None:
            for place, name in enumerate(self.UNNAMED):
                if name.startswith("*") and unnamed[place:]:
                    named.setdefault(name[1:], unnamed[place:])
                elif not name.startswith("*") and place < len(unnamed):
                    named.setdefault(name, unnamed[place])
            limited = not any(name.startswith("*") for name in self.UNNAMED)
            if limited and len(unnamed) > len(self.UNNAMED):
                self._refuse(f"{len(unnamed)} arguments without names", None)
            for name in named:
                if name not in self.ROWS:
                    self._refuse(f"no argument `{name}`", name)
            for row in self.ROWS.values():
                object.__setattr__(self, row.name, row.check(named.get(row.name, row.default)))

    def __repr__(self) -> str:
        """Return the call that makes the object."""
        unnamed: list[str] = []
        named: list[str] = []
        for row in self.ROWS.values():
            value = getattr(self, row.name)
            if value == row.default:
                continue
            if f"*{row.name}" in self.UNNAMED:
                unnamed += map(repr, value)
            elif row.name in self.UNNAMED:
                unnamed.insert(0, repr(value))
            else:
                named.append(f"{row.name}={value!r}")
        return f"{type(self).__name__}({', '.join([*unnamed, *named])})"

    @classmethod
    def _refuse(cls, found: str, name: str | None) -> None:
        raise LaunchError(
            f"{cls.__name__}() must be called with arguments that it has.",
            found=found,
            fix=None if name is None else did_you_mean(name, [row.name for row in cls.public("python")]),
            reason="argument",
        )

    @classmethod
    def public(cls, face: Face) -> list[Option]:
        """Return the rows that a face has."""
        return [row for row in cls.ROWS.values() if face in row.faces]

    def values(self) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: getattr(self, name) for name in self.ROWS}

    def changed(self, **settings: object) -> Self:
        """Return settings with other values for some of them."""
        return type(self)(**{**self.values(), **settings})

    def on_command_line(self, **others: object) -> list[str]:
        """Return the settings as options of ``tfmuster launch``, without those that have the default value.

        `others` are values that differ there.
        """
        values = {**self.values(), **others}
        return [word for name, row in self.ROWS.items() for word in row.on_command_line(values[name])]
