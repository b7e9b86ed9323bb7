"""Check names and texts for files that other programs read, so that they can't be misread."""

from __future__ import annotations

import re

from ..errors import LaunchError

# As in RFC 1035. RFC 1123 also allows a digit first, but names of Services must not start with one.
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def check_label(text: str, what: str) -> None:
    """Raise LaunchError unless the text is a DNS label."""
    if not _LABEL.fullmatch(text):
        raise LaunchError(
            f"A {what} must be a DNS label: at most 63 lowercase letters, digits and -, a letter first.",
            found=ascii(text),
            reason="name",
        )


def check_text(*texts: str) -> None:
    """Raise LaunchError unless JSON can represent all texts, and the kernel accepts them as arguments."""
    for text in texts:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise LaunchError(
                "Names, arguments and variables of a job must be UTF-8 text without null bytes.",
                found=ascii(text),
                fix="Rename the file, or leave the character out.",
                reason="text",
            )


def check_line(text: str, what: str, *, start: str = "", without: str = "") -> None:
    """Raise LaunchError unless it is one line that begins with `start` and has no character of `without`."""
    check_text(text)
    bad = any(ord(character) < 32 or character in without for character in text)
    if bad or not text.startswith(start):
        characters = f" or {without}" if without else ""
        begin = f", and must start with {start}" if start else ""
        raise LaunchError(
            f"The {what} must be one line without control characters{characters}{begin}.",
            found=ascii(text),
            reason="text",
        )
