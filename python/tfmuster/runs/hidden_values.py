"""Leave secrets out of what a run directory keeps of a command line.

A command line may hold a secret: ``--api-key abc``, ``WANDB_API_KEY=abc``, ``https://user:password@host``.
The program gets the command as it is. The run directory, which is kept and may be shared, gets ``***`` in
place of the value. Which values are secrets is guessed from the names of options and variables.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

HIDDEN = "***"

#: Words in the name of an option or a variable whose value is a secret.
_SECRET = {
    *("token", "secret", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "auth"),
    *("apikey", "accesskey", "secretkey", "privatekey", "authorization", "bearer"),
}
#: With ``key`` after them, these are secrets, too.
_OF_KEYS = {
    "api",
    "access",
    "secret",
    "private",
    "account",
    "auth",
    "encryption",
    "signing",
    "ssh",
    "license",
}
#: Names with these words are of numbers, such as ``--max-token 512``.
_COUNTS = {"max", "min", "num", "n", "count", "length", "size", "dim"}
_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w.-]*)(?P<sign>=|:=)(?P<value>.+)", re.DOTALL)
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_CREDENTIALS = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+(?=@)")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def without_secrets(command: Sequence[str]) -> list[str]:
    """Return a command line with ``***`` in place of the values that look like secrets."""
    shown: list[str] = []
    follows = False
    for word in map(str, command):
        if follows and not _OPTION.fullmatch(word):
            shown.append(HIDDEN)
            follows = False
            continue
        follows = bool(_OPTION.fullmatch(word)) and is_secret(word)
        shown.append(_hidden_in(word))
    return shown


def is_secret(name: str) -> bool:
    """Return whether the value of an option or a variable with this name is a secret, by the name alone."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if _COUNTS.intersection(parts):
        return False
    keys = any(first in _OF_KEYS and second == "key" for first, second in itertools.pairwise(parts))
    return keys or not _SECRET.isdisjoint(parts)


def _hidden_in(word: str) -> str:
    assigned = _ASSIGNMENT.fullmatch(word)
    if assigned and is_secret(assigned["name"]):
        return f"{assigned['name']}{assigned['sign']}{HIDDEN}"
    if re.search(r"\s", word):
        # A line of shell, such as that of `bash -c`.
        pieces = re.split(r"(\s+)", word)
        pieces[::2] = without_secrets(pieces[::2])
        return "".join(pieces)
    return _CREDENTIALS.sub(rf"\1:{HIDDEN}", word)
