"""Write settings, functions and values of a message as its reader writes them.

tfmuster has three faces. What is ``workers=2`` for Python is ``-n 2`` on the command line and ``workers = 2``
in R; ``None`` is ``NULL`` in R, and ``save_model()`` is ``model_to_file()``. A message therefore names such a
thing by one of the classes of this module, and each face writes it in its own way::

    fix=Words("Start fewer workers ({}).", Hint("workers", 2))

`Hint` and `Launch`, which know the settings of a launch, are in :mod:`.options.hints`.

Settings and commands are written for the face that has started the job: the command line, Python or R.
Functions and values are written in the language of the program.

No imports of this package: every module may need this one.
"""

from __future__ import annotations

import abc
import contextlib
import difflib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast, get_args

_Any = TypeVar("_Any")
Face = Literal["python", "shell", "r"]

#: For the processes of a job: the face that has started it.
FACE_VARIABLE: Final = "TFMUSTER_FACE"

_speaking: list[Face] = []


@contextlib.contextmanager
def speaking(face: Face) -> Iterator[None]:
    """Write messages for a face in this block, unless another has started the job of this process."""
    _speaking.append(face)
    try:
        yield
    finally:
        _speaking.remove(face)


def face() -> Face:
    """Return the face that messages are for."""
    started_by = os.environ.get(FACE_VARIABLE, "")
    if started_by in get_args(Face):
        return cast(Face, started_by)
    return _speaking[-1] if _speaking else language()


def language() -> Literal["python", "r"]:
    """Return the language of the program in this process."""
    # Where a Python program has R in it, R's calls come from the bridge.
    embedded = "rpytools" in sys.modules and "rpy2" not in sys.modules
    return "r" if embedded or "r" in _speaking else "python"


class Part(abc.ABC):
    """A part of a message that each face writes in its own way."""

    @abc.abstractmethod
    def written(self, face: Face) -> str:
        """Return the text for one face."""

    @property
    def hints(self) -> list[dict[str, Any]]:
        """The settings of `launch()` that the part names, as data."""
        return []

    def __str__(self) -> str:
        return self.written(face())


class Spoken(Part):
    """A part that is written in the language of the program, also for the command line."""

    def __str__(self) -> str:
        return self.written(language())


@dataclass(frozen=True)
class Value(Spoken):
    """A value: ``None`` is ``NULL`` in R, and ``['a', 'b']`` is ``c("a", "b")``."""

    value: object

    def written(self, face: Face) -> str:
        """Return the value as code."""
        return r_text(self.value) if face == "r" else repr(self.value)


@dataclass(frozen=True)
class Argument(Spoken):
    """An argument of a function, with its value: ``replicas=2``."""

    name: str
    value: object

    def written(self, face: Face) -> str:
        """Return the argument as code."""
        equals = " = " if face == "r" else "="
        return f"{self.name}{equals}{Value(self.value).written(face)}"


@dataclass(frozen=True)
class Code(Part):
    """Code that differs. Without text for the command line, it is written in the language of the program."""

    python: str
    r: str
    shell: str | None = None

    def written(self, face: Face) -> str:
        """Return the code for one face."""
        if face == "shell":
            return self.written(language()) if self.shell is None else self.shell
        return self.r if face == "r" else self.python

    def __str__(self) -> str:
        return self.written(language() if self.shell is None else face())


class Words(str):
    """A text with parts, written for the face of this process.

    It is an ordinary text for everybody who reads it as one, and knows the settings that it names.
    """

    template: str
    parts: tuple[object, ...]

    def __new__(cls, template: str, *parts: object) -> Words:
        """Fill the ``{}`` of `template` with the parts, as `str.format` does."""
        words = super().__new__(cls, template.format(*map(now, parts)))
        words.template = template
        words.parts = parts
        return words

    def __getnewargs__(self) -> tuple[object, ...]:  # type: ignore[override]
        return (self.template, *self.parts)

    @property
    def hints(self) -> list[dict[str, Any]]:
        """The settings that the text names, as data."""
        return [hint for part in self.parts if isinstance(part, (Part, Words)) for hint in part.hints]


def now(text: _Any) -> _Any:
    """Return a text as the face of this process has it now; texts of constants are written at import."""
    return cast(_Any, Words(text.template, *text.parts)) if isinstance(text, Words) else text


def hints_in(*texts: str | None) -> list[dict[str, Any]]:
    """Return the settings that texts name, as data."""
    return [hint for text in texts if isinstance(text, Words) for hint in text.hints]


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """Return a question with the known name that is nearest to a wrong one; None if none is near."""
    if not isinstance(name, str):
        return None
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return str(Words("Did you mean {}?", Value(near[0]))) if near else None


def choice(name: object, known: Iterable[str]) -> str:
    """Return what a wrong name may be: the one that is nearest to it, and all that there are."""
    known = tuple(known)
    return " ".join(filter(None, (did_you_mean(name, known), f"Choose one of {', '.join(known)}.")))


def r_text(value: object) -> str:
    """Return a value of Python as code of R."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        return _r_number(value)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, (bytes, bytearray)):
        return f"as.raw(c({', '.join(f'0x{byte:02x}' for byte in value)}))"
    if isinstance(value, (list, tuple)):
        return _r_vector(value)
    if isinstance(value, Mapping):
        named = (f"{name} = {r_text(entry)}" for name, entry in value.items())
        return f"list({', '.join(named)})"
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return r_text(value.item())
    return f"an object of class {type(value).__name__}"


def _r_number(value: float) -> str:
    if math.isnan(value):
        return "NA"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return f"{value:.15g}"


def _r_vector(values: Sequence[object]) -> str:
    texts = [r_text(value) for value in values]
    simple = all(isinstance(value, (bool, int, float, str, os.PathLike)) for value in values)
    if not texts:
        return "list()"
    if len(texts) == 1 and simple:
        return texts[0]
    return f"{'c' if simple else 'list'}({', '.join(texts)})"
