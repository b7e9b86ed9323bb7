"""Turn what other programs have written, in whichever encoding, into lines that a terminal may show.

Nearly all write UTF-8. Where the user's locale or ``PYTHONIOENCODING`` has another one, Python and R write in
that, and a program in C or a message of TensorFlow may still write UTF-8, so each line decides by itself.
"""

from __future__ import annotations

import codecs
import contextlib
import locale
import re
from collections.abc import Mapping

# Control sequences begin with ESC, or with one character of C1, which terminals take as well.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[@-Z\\-_]"
)
_MOVES = re.compile("([\r\b])")

# Other controls, C1's included; Unicode's line ends; and what changes the direction of text, so that a line
# shows other words than it has.
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MAX_LINE = 65_536

# TensorFlow's informational messages, and the first lines of longer ones.
_CHATTER = re.compile(
    r"I\d{4} \d\d:\d\d:[\d.]+ +\d+ \S+:\d+\] "
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: I "
    r"|WARNING: All log messages before absl::InitializeLog\(\) "
    r"|To enable the following instructions: .* rebuild TensorFlow"
    r"|/job:\w+/replica:\d+/task:\d+$"
    # Logged as an error, although a slower way to compute the same is taken.
    r"|E\d{4} .*\] oneDNN supports DT_\w+ only on platforms with "
)

# When, and by which process or thread, a line of a log was written.
_TIME = re.compile(
    r"^([IWEF])\d{4} \d\d:\d\d:[\d.]+ +\d+ (?=\S+:\d+\] )|^\d{4}-\d\d-\d\d \d\d:\d\d:[\d.,]+(?=:? )"
)

# TensorFlow logs this as an error, but it is normal on a machine without a GPU.
_NO_GPU = re.compile(r"E\d{4} .*failed call to cuInit")


def visible(line: str) -> str:
    """Return what a terminal finally shows for a line with carriage returns and backspaces, without colors.

    A progress bar rewrites its line. Several workers can't share one line, so only the last state is shown.
    """
    if line.isprintable():
        return line.rstrip()
    line = _ESCAPES.sub("", line)
    if "\r" in line or "\b" in line:
        shown: list[str] = []
        cursor = 0
        for part in _MOVES.split(line):
            if part == "\r":
                cursor = 0
            elif part == "\b":
                cursor = max(0, cursor - 1)
            elif part:
                shown[cursor : cursor + len(part)] = part
                cursor += len(part)
        line = "".join(shown)
    return _CONTROLS.sub("", line).rstrip()


def bounded_text(value: object, limit: int = 200) -> str:
    """Show `value` as one line of at most `limit` characters without control characters."""
    text = "".join(c if c.isprintable() else "?" for c in str(value)[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def safe_text(text: str) -> str:
    """Return text of several lines without what would change the terminal, or hide a part of the text.

    A line without any of that stays as it is, with its blanks at the end: an address may be wrong by them.
    """

    def safe(line: str) -> str:
        return line if (shown := visible(line)) == line.rstrip() else shown

    return "\n".join(map(safe, text.split("\n")))


def json_text(value: object) -> str:
    """Return JSON for a person or a program, with what `safe_text` leaves out as escape sequences."""
    import orjson

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    # JSON itself escapes the controls before the blank.
    return re.sub(r"[^\n -\x7e]", lambda match: _escaped(match[0]), text)


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if _CONTROLS.match(character) else character


def is_chatter(line: str, *, gpu: bool) -> bool:
    """Return whether a line is one of TensorFlow's dozens of informational lines from native libraries."""
    return bool(_CHATTER.match(line) or (not gpu and _NO_GPU.match(line)))


def without_time(line: str) -> str:
    """Return a line of a log without its time and process, which differ if two write the same."""
    return _TIME.sub(r"\1", line)


class Lines:
    """Split a stream of bytes into lines as a terminal would show them, those not in UTF-8 in `encoding`."""

    def __init__(self, encoding: str | None = None) -> None:
        self._encoding = encoding
        self._begun = b""

    def feed(self, data: bytes) -> list[str]:
        """Add bytes, and return the lines that they complete."""
        whole, end, begun = (self._begun + data).rpartition(b"\n")
        lines = decoded(whole, self._encoding).split("\n") if end else []
        if len(begun) > _MAX_LINE:
            # A very long progress bar or line: keep what is visible, or drop it.
            text, begun = self._visible_so_far(begun)
            if len(text) > _MAX_LINE // 2:
                lines.append(text)
            else:
                begun = text.encode() + begun
        self._begun = begun
        return [visible(line) for line in lines]

    def _visible_so_far(self, begun: bytes) -> tuple[str, bytes]:
        """Return what is visible of a line, and the bytes of a character that is not complete yet."""
        try:
            text, used = codecs.utf_8_decode(begun, "strict", False)
        except UnicodeDecodeError:
            return visible(decoded(begun, self._encoding)), b""
        return visible(text), begun[used:]

    def end(self) -> list[str]:
        """Return the incomplete last line after the end of the stream."""
        rest, self._begun = decoded(self._begun, self._encoding), b""
        return [visible(rest)] if rest else []


def output_encoding(environ: Mapping[str, str]) -> str | None:
    """Return the encoding in which programs with these variables write; None for UTF-8 or an unknown one.

    Python's own name of the encoding is returned, in which the line end is the single byte of ASCII.
    """
    encoding = environ.get("PYTHONIOENCODING", "").partition(":")[0]
    if not encoding and environ.get("PYTHONUTF8") != "1":
        language = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
        # A name without an encoding, such as de_DE, stands for that of the language.
        encoding = locale.normalize(language).partition(".")[2].partition("@")[0]
    try:
        name = codecs.lookup(encoding).name
        usable = "\n".encode(name) == b"\n"
    except (LookupError, ValueError, UnicodeError):
        # Such as that of the locale C, in which Python writes UTF-8.
        return None
    return name if usable and name != "utf-8" else None


def decoded(data: bytes, encoding: str | None) -> str:
    """Return the text of lines. Those that are not UTF-8 are in another encoding, if there is one."""
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode()
    if encoding is not None and b"\n" in data:
        return "\n".join(decoded(line, encoding) for line in data.split(b"\n"))
    return data.decode(encoding or "utf-8", errors="replace")
