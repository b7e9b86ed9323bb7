"""Check that a file of R's ``saveRDS()`` holds data only, before R reads it.

R's ``readRDS()`` can run code: a promise is evaluated when it is first used, functions and calls are what a
program evaluates, an external pointer or an S4 object makes R load packages, and a reference to an
environment changes this session's. So the values of workers on other machines are read only if they consist
of vectors, lists and attributes. The format is described in "R Internals", section "Serialization Formats".
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from ...system.regular_files import open_regular

_TEXT, _SYMBOL, _PAIRS, _ANY = "a text", "a symbol", "a pairlist", "a value"

#: Types of vectors, and their bytes per element.
_BYTES = {10: 4, 13: 4, 14: 8, 15: 16, 24: 1}
_SYM, _LIST, _CHAR, _STR, _VECTOR, _NULL, _REFERENCE = 1, 2, 9, 16, 19, 254, 255
#: What can run code or change the session, by R's number of the type.
_REFUSED = {
    3: "a function",
    4: "an environment",
    5: "a promise",
    6: "a call or a formula",
    7: "a function",
    8: "a function",
    17: "arguments of a function",
    20: "an expression",
    21: "byte code",
    22: "an external pointer",
    23: "a weak reference",
    25: "an S4 object",
    238: "a vector in a compact form",
    239: "byte code",
    240: "byte code",
    **dict.fromkeys((241, 242, 247, 248, 249, 250, 253), "an environment"),
}
_S4 = 1 << 4
_HAS_ATTRIBUTES = 1 << 9
_WITH_TAG = 1 << 10


class NotDataError(ValueError):
    """The file holds something else than data, or is not an RDS file. The text says what."""


def check_rds(path: Path | str) -> None:
    """Raise NotDataError unless an uncompressed RDS file holds only vectors, lists and their attributes."""
    with open_regular(path) as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise NotDataError("an empty file") from None
        with content:
            check_rds_bytes(content)


def check_rds_bytes(content: bytes | mmap.mmap) -> None:
    """Check the bytes of an uncompressed RDS file, as R's ``serialize()`` returns them; see `check_rds`."""
    try:
        _Walk(content).run()
    except struct.error:
        raise NotDataError("a damaged file") from None


class _Walk:
    """Goes through the items of a file in their order, without building them."""

    def __init__(self, content: bytes | mmap.mmap) -> None:
        self._content, self._at = content, 0
        # What must follow, the next one last, each with its number.
        self._expected: list[tuple[str, int]] = [(_ANY, 1)]
        self._symbols = 0

    def run(self) -> None:
        if self._content[:2] != b"X\n":
            raise NotDataError("a file in another format than that of saveRDS(compress = FALSE)")
        self._at = 2
        version, _, _ = self._integers(3)
        if version != 2:
            raise NotDataError(f"version {version} of the format; saveRDS(version = 2) is expected")
        while self._expected:
            kind, count = self._expected.pop()
            if count > 1:
                self._expected.append((kind, count - 1))
            self._item(kind)
        if self._at != len(self._content):
            raise NotDataError("a damaged file")

    def _integers(self, count: int) -> tuple[int, ...]:
        numbers = struct.unpack_from(f">{count}i", self._content, self._at)
        self._at += 4 * count
        return numbers

    def _skip(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._content):
            raise NotDataError("a damaged file")
        self._at += size

    def _length(self) -> int:
        (length,) = self._integers(1)
        if length == -1:
            high, low = self._integers(2)
            length = (high << 32) + (low & 0xFFFFFFFF)
        if length < 0:
            raise NotDataError("a damaged file")
        return length

    def _expect(self, kind: str, count: int = 1) -> None:
        if count:
            self._expected.append((kind, count))

    def _item(self, expected: str) -> None:
        (flags,) = self._integers(1)
        kind, levels = flags & 0xFF, (flags & 0xFFFFFFFF) >> 12
        if kind in _REFUSED:
            raise NotDataError(_REFUSED[kind])
        if kind == _CHAR:
            self._must(expected == _TEXT)
            (size,) = self._integers(1)
            self._skip(max(0, size))
            return
        if kind == _REFERENCE:
            # Only symbols are counted, because everything else that can be referred to is refused.
            number = (flags & 0xFFFFFFFF) >> 8 or self._integers(1)[0]
            self._must(expected == _SYMBOL and 0 < number <= self._symbols)
            return
        if kind == _SYM:
            self._must(expected in (_SYMBOL, _ANY))
            self._symbols += 1
            self._expect(_TEXT)
            return
        self._must(expected in (_ANY, _PAIRS) and (expected == _ANY or kind in (_LIST, _NULL)))
        if levels & _S4 and kind != _NULL:
            raise NotDataError("an S4 object")
        # Expected in reverse order: the last one pushed is the next one.
        if kind == _LIST:
            self._expect(_PAIRS)
            self._expect(_ANY)
            self._expect(_SYMBOL, int(bool(flags & _WITH_TAG)))
            self._expect(_PAIRS, int(bool(flags & _HAS_ATTRIBUTES)))
        elif kind != _NULL:
            self._vector(kind, bool(flags & _HAS_ATTRIBUTES))

    def _vector(self, kind: int, has_attributes: bool) -> None:
        if kind not in (_STR, _VECTOR, *_BYTES):
            raise NotDataError(f"an object of R's type {kind}")
        length = self._length()
        self._expect(_PAIRS, int(has_attributes))
        if kind in _BYTES:
            self._skip(length * _BYTES[kind])
        else:
            self._expect(_TEXT if kind == _STR else _ANY, length)

    def _must(self, holds: bool) -> None:
        if not holds:
            raise NotDataError("a damaged file")
