"""What came of a program: one of :data:`OUTCOMES`, with the reason."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .comparing import compare, counted, finite, largest
from .running import Ran

OUTCOMES = ("equal", "refused", "differs", "failed", "hangs", "not here")
#: The last line of a traceback, or of a command of tfmuster.
_LINE = re.compile(r"^(?:[\w.]+(?:Error|Exception|Interrupt|Exit|Warning)\b.*|Error: .*)$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program, for the JSON file."""

    outcome: str
    reason: str = ""
    detail: str = ""
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    calls: int = 0
    #: Whether one process came to the program's end.
    whole: bool = False
    largest: float = 0.0
    seconds: tuple[float, float] = (0.0, 0.0)
    #: The outcome with ``keras.random`` in the place of ``tf.random``.
    without_tf_random: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return asdict(self)


def of_one(one: Ran) -> Outcome | None:
    """Return that a program does not run here, or None if it does."""
    ended = one.done()
    if one.calls() or ended.get("how") == "ended":
        if not finite(one.records, one.calls()):
            return Outcome("not here", "weights that are not finite", seconds=(one.seconds, 0.0))
        if one.calls() or counted(one.records):
            return None
        return Outcome("not here", "trains nothing", seconds=(one.seconds, 0.0))
    if one.code is None:
        return Outcome("not here", "too large", seconds=(one.seconds, 0.0))
    line = last_error(one.output)
    return Outcome("not here", _missing(line), line, seconds=(one.seconds, 0.0))


def of_two(one: Ran, two: Ran) -> Outcome:
    """Return the outcome of a program that runs in one process."""
    calls = one.calls()
    about: dict[str, Any] = {
        "notes": list(dict.fromkeys(str(note.get("text")) for note in two.shown.get("notes") or [])),
        "calls": calls,
        "whole": one.done().get("how") == "ended",
        "seconds": (round(one.seconds, 1), round(two.seconds, 1)),
    }
    error = two.shown.get("error") or {}
    if two.code == 0:
        differences = _compared(one, two, calls)
        size = largest(one.records, two.records, calls)
        if differences:
            return Outcome("differs", differences[0], differences=differences[:20], largest=size, **about)
        return Outcome("equal", largest=size, **about)
    # What was recorded before the end must be right, too.
    seen = min(two.calls(), two.calls(1))
    about["differences"] = _compared(one, two, seen)[:20]
    if two.code is None:
        return Outcome("hangs", f"after {seen} of {calls} calls", two.output[-1500:], **about)
    text, reason = _failure(two, error)
    return Outcome("refused" if reason else "failed", reason or text.partition("\n")[0], text, **about)


def _compared(one: Ran, two: Ran, calls: int) -> list[str]:
    found = compare(one.records, two.records, calls)
    return [f"{each.call}: {each.what}: {each.text}" for each in found]


def of_again(two: Outcome, one: Ran, again: Ran) -> Outcome:
    """Return the outcome of a program that differs, when one process has run again with other last bits.

    Weights and predictions may then differ as much as those of one process do. A loss or a metric must differ
    in the same call of both: where only several workers have another one, rounding is not the reason.
    """
    calls = min(two.calls, again.calls())
    size = largest(one.records, again.records, calls)
    others = {_place(text) for text in _compared(one, again, calls)}
    numbers = {_place(text) for text in two.differences if not text.endswith(("of the norm", "of the move"))}
    about = f"{two.largest:.1e} of the move, and {size:.1e} in one process with other last bits"
    if calls == two.calls and two.largest <= 3 * size and numbers <= others:
        return replace(
            two, outcome="equal", reason="other last bits change one process as much", detail=about
        )
    return replace(two, detail=about)


def _place(text: str) -> str:
    return text.partition(": ")[0]


def _failure(two: Ran, error: dict[str, Any]) -> tuple[str, str]:
    """Return the text of a failure, and its first line without the class if it is tfmuster's own error."""
    text = str(error.get("error") or last_error(two.output))
    name, _, message = text.partition(": ")
    ours = name.startswith("tfmuster.errors.") or name == "Error"
    if not ours and (frames := re.findall(r'File "(.*)", line', str(error.get("traceback", "")))):
        text += f"\n  raised in: {frames[-1]}"
    return text[:3000], message.partition("\n")[0] if ours else ""


def last_error(output: str) -> str:
    """Return the last line of a program's output that names an exception."""
    lines = _LINE.findall(output)
    return str(lines[-1])[:400] if lines else output.strip()[-400:]


def _missing(line: str) -> str:
    """Return in general words why a program does not run here."""
    kinds = {
        "no stand-in": "data without a stand-in",
        "ModuleNotFoundError": "a package",
        "ImportError": "a package",
        "FileNotFoundError": "a file",
        "NotFoundError": "a file",
        "URLError": "a download",
        "ConnectionError": "a download",
        "HTTPError": "a download",
        "NameError": "a name of the notebook",
        "AttributeError": "another release of Keras",
        "SyntaxError": "not a program",
    }
    return next((reason for key, reason in kinds.items() if key in line), "an error in one process")
