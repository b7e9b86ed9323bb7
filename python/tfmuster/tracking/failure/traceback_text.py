"""Show of an error what its user needs: the cause in one line, and the user's own lines of a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...system.user_code import LIBRARY

#: The first line of a traceback.
HEADER = "Traceback (most recent call last):"

#: How R shows an unhandled error.
R_ERROR = re.compile(r"Error( in .*)?:")
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
#: What Python writes between the traceback of a cause and that of its consequence.
_CHAINED = re.compile(r"^(The above exception was the direct cause|During handling of the above)", re.M)


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


def without_traceback(traceback: str, error: str, lines: Sequence[str]) -> list[str]:
    """Remove the lines of the traceback, which may have started before the first of `lines`.

    What Python prints may differ from what the traceback module writes: Keras removes its own frames.
    """
    lines = [line.rstrip() for line in lines]
    if not traceback or not error:
        return lines
    if R_ERROR.match(error):
        begin = max((at for at, line in enumerate(lines) if R_ERROR.match(line)), default=None)
        return lines[:begin]
    # A mistake in a script is printed without a header, and with another text than its error has.
    written = [line.rstrip() for line in traceback.rstrip().splitlines()]
    for end in range(len(lines), 0, -1):
        if lines[:end][-len(written) :] == written[-end:]:
            return lines[: max(0, end - len(written))] + lines[end:]
    said = [line.rstrip() for line in error.splitlines()]
    for end in range(len(lines), 0, -1):
        # Its text may have started before the first line, too.
        if lines[:end][-len(said) :] == said[-end:]:
            start = _last_traceback(lines[:end])
            return lines[: 0 if start is None else start] + lines[end:]
    return lines[: _last_traceback(lines)]


def _last_traceback(lines: Sequence[str]) -> int | None:
    """Return where the last traceback begins, with those of its causes; None if there is none.

    Earlier ones are of errors that the program has handled.
    """
    headers = [at for at, line in enumerate(lines) if line == HEADER]
    while len(headers) > 1 and _CHAINED.search("\n".join(lines[headers[-2] : headers[-1]])):
        headers.pop()
    return headers[-1] if headers else None
