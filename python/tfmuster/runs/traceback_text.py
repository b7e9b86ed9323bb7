"""Show of an error what its user needs: the cause in one line, and the user's own lines of a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..system.own_line import LIBRARY

#: The first line of a traceback.
HEADER = "Traceback (most recent call last):"

_FRAME = re.compile(r'\s*File "([^"]+)", line \d+')
#: How many lines of the error itself are shown, and how many characters of a headline.
_MOST_LINES, _MOST_CHARACTERS = 30, 400
#: What TensorFlow says before the cause.
_BEFORE_CAUSE = re.compile(
    r"\s*$|\s{2,}|Detected at node|\s+File |\s*<stack traces|\s*\[\[|\s*Original stack trace"
)
_NAMES_OF_CAUSE = "Graph execution error:"
_PER_REPLICA = re.compile(r"\(PerReplica:\{.*?\n\}\)", re.DOTALL)
#: What R says of a file that it can't open, and the warning that says why.
_NO_CONNECTION = "cannot open the connection"
_UNOPENED = re.compile(r"cannot open (?:compressed )?(?:file|URL) '.*")


def cause_of(error: str, output: Sequence[str] = ()) -> str:
    """Return an error in one line that holds its cause, which R may have written before, as a warning."""
    cause = _first_line(error)
    reasons = [found[0] for line in output if (found := _UNOPENED.search(line))]
    if cause.endswith(_NO_CONNECTION) and reasons:
        cause = cause.removesuffix(_NO_CONNECTION) + reasons[-1]
    return _cut(cause)


def _first_line(error: str) -> str:
    error = _PER_REPLICA.sub("(PerReplica:{...})", error)
    first, _, rest = error.partition("\n")
    if first.rstrip().endswith(_NAMES_OF_CAUSE):
        kind = first.rstrip().removesuffix(_NAMES_OF_CAUSE).rstrip()
        told = [line.strip() for line in rest.splitlines() if not _BEFORE_CAUSE.match(line)]
        return f"{kind} {told[0]}" if told else first
    if first.rstrip().endswith((":", "(", "[", "{")):
        # The text begins below its kind.
        more = next((line.strip() for line in rest.splitlines() if line.strip()), "")
        return f"{first.rstrip()} {more}"
    return first


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def own_lines(traceback: str) -> list[str]:
    """Return a traceback without the frames of libraries, and with the first lines of the error.

    A traceback that has only frames of libraries keeps the last of them.
    """
    frames: list[list[str]] = []
    said: list[str] = []
    for line in traceback.rstrip().splitlines():
        if _FRAME.match(line):
            frames.append([line])
            said = []
        elif frames and not said and line.startswith("    "):
            frames[-1].append(line)
        elif line == HEADER or (not line.strip() and not said):
            # A new traceback, of what was raised while the one before was handled.
            frames = [] if line == HEADER else frames
            said = []
        else:
            said.append(line)
    own = [frame for frame in frames if not LIBRARY.search(_path(frame[0]))]
    shown = own or frames[-1:]
    left = len(frames) - len(shown)
    lines = [HEADER, *(line for frame in shown for line in frame)] if frames else []
    if left:
        lines.append(f"  ({left} frame{'' if left == 1 else 's'} of libraries: see the full output)")
    lines += said[:_MOST_LINES]
    if len(said) > _MOST_LINES:
        lines.append(f"... ({len(said) - _MOST_LINES} more lines: see the full output)")
    return lines


def _path(frame: str) -> str:
    match = _FRAME.match(frame)
    return match[1] if match else ""
