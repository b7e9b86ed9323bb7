"""Name settings and calls of `launch()` in a message, as its reader writes them: :mod:`tfmuster.words`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..words import Argument, Face, Part, Value
from .places import PLACES
from .table import ROWS, Control, Plain, Waiting

#: Settings that say how many workers there are, and where.
ABOUT_WORKERS: Final = ("workers", "hosts", "hostfile")


@dataclass(frozen=True)
class Hint(Part):
    """A setting of a launch, by its name in Python; without a value, its name alone."""

    option: str
    value: object = None
    #: The engine that the setting is for, if it is not clear from the setting.
    backend: str | None = None

    @property
    def hints(self) -> list[dict[str, Any]]:
        """The setting as data."""
        return [{"option": self.option, "value": self.value}]

    def written(self, face: Face) -> str:
        """Return the setting as an option of the command line, or as an argument."""
        if face == "shell":
            return self._as_option()
        if self.value is None:
            return self.option
        if self.option == "backend" or self.option in _unnamed():
            return _on([self], face)
        return str(Argument(self.option, self.value).written(face))

    def _as_option(self) -> str:
        row = ROWS.get(self.option)
        flag = row.flags[0] if row is not None and row.flags else f"--{self.option.replace('_', '-')}"
        # Some switches are on by default, and their option turns them off.
        if self.value is None or isinstance(self.value, bool):
            return flag
        return " ".join(
            f"{flag}={shlex.quote(text)}" if text.startswith("-") else f"{flag} {shlex.quote(text)}"
            for text in _texts(self.value)
        )


def _texts(value: object) -> list[str]:
    """Return the values of an option that may be repeated."""
    if isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in value.items()]
    return list(map(str, value)) if isinstance(value, (list, tuple)) else [str(value)]


@dataclass(frozen=True)
class Launch(Part):
    """A call of ``launch()`` with some settings. `script` is what is launched, or None for the settings.

    A script in capitals, or ``...``, stands for any. `args` are the arguments of the script.

    With `by_command`, Python says the command, too: for a script that runs without a launcher. With `of`, it
    is written for that face, whichever has started the job.
    """

    settings: tuple[Hint, ...]
    script: str | None = "..."
    by_command: bool = False
    of: Face | None = None
    args: tuple[str, ...] = ()

    @property
    def hints(self) -> list[dict[str, Any]]:
        """The settings as data."""
        return [hint for setting in self.settings for hint in setting.hints]

    def written(self, face: Face) -> str:
        """Return the command, or the call."""
        face = self.of or face
        if face == "shell" or (face == "python" and self.by_command):
            words = ["tfmuster launch", *(hint.written("shell") for hint in self.settings)]
            return " ".join([*words, *map(shlex.quote, self._program())])
        control = [hint for hint in self.settings if hint.option in Control.ROWS]
        plain = [hint for hint in self.settings if hint.option in {**Plain.ROWS, **Waiting.ROWS}]
        place = [hint for hint in self.settings if hint not in control and hint not in plain]
        words = [] if self.script is None else [self._named(face)]
        words += [Value(argument).written(face) for argument in self.args]
        words += [_argument(hint, face) for hint in plain]
        words += [_on(place, face)] if place else []
        if control:
            name, equals = ("launch_control", " = ") if face == "r" else ("Control", "=")
            words.append(f"control{equals}{name}({', '.join(_argument(hint, face) for hint in control)})")
        return f"launch({', '.join(words)})"

    def _program(self) -> list[str]:
        """Return the words of the program, after ``--`` if the launcher could take an argument as its own."""
        flags = {flag for name in ABOUT_WORKERS for flag in ROWS[name].flags}
        is_unclear = any(argument.partition("=")[0] in flags for argument in self.args)
        return [*(["--"] if is_unclear else []), *([] if self.script is None else [self.script]), *self.args]

    def _named(self, face: Face) -> str:
        assert self.script is not None
        any_script = self.script == "..." or self.script.isupper()
        return self.script.lower() if any_script else Value(self.script).written(face)


def _argument(hint: Hint, face: Face) -> str:
    equals = " = " if face == "r" else "="
    return f"{hint.option}{equals}{'...' if hint.value is None else Value(hint.value).written(face)}"


def _on(hints: Iterable[Hint], face: Face) -> str:
    """Return settings as Python's ``on=Ssh('node1:2', copy=True)``, or as R's."""
    hints = list(hints)
    named = [str(hint.value) for hint in hints if hint.option == "backend" and hint.value is not None]
    named += [hint.backend for hint in hints if hint.backend is not None]
    options = [hint for hint in hints if hint.option != "backend"]
    known = [place for place in PLACES if all(hint.option in place.ROWS for hint in options)]
    known.sort(key=lambda place: not all("python" in place.ROWS[hint.option].faces for hint in options))
    backend = named[0] if named else known[0].backend if known else "ssh"
    unnamed = [hint for hint in options if hint.option in _unnamed()]
    lists = [hint.value if isinstance(hint.value, (list, tuple)) else [hint.value] for hint in unnamed]
    words = ["..." if value is None else Value(value).written(face) for values in lists for value in values]
    words += [_argument(hint, face) for hint in options if hint.option not in _unnamed()]
    name = f"on = on_{backend}" if face == "r" else f"on={backend.capitalize()}"
    return f"{name}({', '.join(words)})"


def _unnamed() -> set[str]:
    """Return the settings that the classes of places take without their names."""
    return {name.lstrip("*") for place in PLACES for name in place.UNNAMED}
