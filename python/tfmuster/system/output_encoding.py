"""Find out in which encoding programs write their output, and decode it.

Nearly all write UTF-8. Where the user's locale or ``PYTHONIOENCODING`` has another one, Python and R write in
that, and a program in C or a message of TensorFlow may still write UTF-8, so each line decides by itself.
"""

from __future__ import annotations

import codecs
import locale
from collections.abc import Mapping


def output_encoding(environ: Mapping[str, str]) -> str | None:
    """Return the encoding in which programs with these variables write; None for UTF-8 or an unknown one.

    Python's own name of the encoding is returned, in which the line end is the single byte of ASCII.
    """
    said = environ.get("PYTHONIOENCODING", "").partition(":")[0]
    if not said and environ.get("PYTHONUTF8") != "1":
        chosen = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
        # A name without an encoding, such as de_DE, stands for that of the language.
        said = locale.normalize(chosen).partition(".")[2].partition("@")[0]
    try:
        found = codecs.lookup(said).name
        usable = "\n".encode(found) == b"\n"
    except (LookupError, ValueError, UnicodeError):
        # Such as that of the locale C, in which Python writes UTF-8.
        return None
    return found if usable and found != "utf-8" else None


def decoded(data: bytes, encoding: str | None) -> str:
    """Return the text of lines. Those that are not UTF-8 are in another encoding, if there is one."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        lines = data.split(b"\n") if encoding is not None else [data]
    return "\n".join(_decoded_line(line, encoding) for line in lines)


def _decoded_line(line: bytes, encoding: str | None) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(encoding or "utf-8", errors="replace")
