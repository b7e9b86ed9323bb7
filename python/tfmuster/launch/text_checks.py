"""Names and texts that go into somebody else's files: checked, so that none is read as anything else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import LaunchError

# As RFC 1035 has it; RFC 1123 would allow a digit first, which the names of Services must not have.
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def check_label(text: str, what: str) -> None:
    """Raise LaunchError unless the text is a DNS label."""
    if not _LABEL.fullmatch(text):
        raise LaunchError(
            f"A {what} is a DNS label: small letters, digits and -, a letter first, at most 63 characters.",
            found=ascii(text),
            reason="name",
        )


def name_for(name: str | None, command: Sequence[str]) -> str:
    """The name given, if it is a DNS label, or one made of the script's.

    Raises
    ------
    LaunchError
        The name given is none, or there is no command.
    """
    if name is not None:
        check_label(name, "job's name")
        return name
    if not command:
        raise LaunchError("Nothing to run.", fix="Name a script, or a command after `--`.", reason="command")
    made = re.sub(r"[^a-z0-9]+", "-", command_name(command).lower()).lstrip("-0123456789")
    return made[:40].strip("-") or "job"


def command_name(command: Sequence[str]) -> str:
    """The script's name without its extension, or for ``tfmuster train mnist`` its verbs."""
    program, *arguments = command
    verbs = list(itertools.takewhile(str.isalpha, arguments)) if program == "tfmuster" else []
    return "-".join(verbs) or Path(program).stem


def _is_text(text: str) -> bool:
    """Whether JSON can carry it, and the kernel takes all of it for an argument."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def check_text(*texts: str) -> None:
    """Raise LaunchError unless all are UTF-8 without null bytes."""
    for text in texts:
        if not _is_text(text):
            raise LaunchError(
                "Names, arguments and variables of a job must be UTF-8 text without null bytes.",
                found=ascii(text),
                fix="Rename the file, or leave the character out.",
                reason="text",
            )


def check_line(text: str, what: str, *, start: str = "", without: str = "") -> None:
    """Raise LaunchError unless the text is one line that a file of lines can have as its own.

    Parameters
    ----------
    text : str
        What is to be written.
    what : str
        What it is, for the error.
    start : str
        How it has to begin.
    without : str
        Characters that it must not have.
    """
    check_text(text)
    bad = any(ord(character) < 32 or character in without for character in text)
    if bad or not text.startswith(start):
        characters = f" or {without}" if without else ""
        begin = f", and begins with {start}" if start else ""
        raise LaunchError(
            f"The {what} is one line without control characters{characters}{begin}.",
            found=ascii(text),
            reason="text",
        )
