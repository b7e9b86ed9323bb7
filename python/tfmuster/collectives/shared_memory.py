"""Sum with numpy in the memory of the other workers, as ``exchange.c`` does on one machine.

The kernel lets processes of a user read each other's memory (``process_vm_readv``), which Python reaches
without a compiler.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

#: Sums of fewer bytes are sent.
READ_LEAST: Final = 1 << 20
#: Bytes that are read before they are added.
READ_PIECE: Final = 256 * 1024
#: Parts of one system call.
_MOST_PARTS: Final = 64


class _Memory(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Reader:
    """Reads the memory of other processes.

    Attributes
    ----------
    mark, address : int
        A random number, and where it is. Whoever finds it there in the memory of this process can read it.
    """

    def __init__(self) -> None:
        self._mark = ctypes.c_uint64(secrets.randbits(63) + 1)
        self.mark, self.address = self._mark.value, ctypes.addressof(self._mark)
        self._call = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._call.restype = ctypes.c_ssize_t

    def can_read(self, process: int, mark: int, address: int) -> bool:
        """Tell whether the mark of a process is where it says."""
        found = np.zeros(1, np.uint64)
        try:
            self.read(process, [(address, 8)], [(address_of(found), 8)])
        except OSError:
            return False
        return int(found[0]) == mark

    def read(self, process: int, theirs: Sequence[tuple[int, int]], ours: Sequence[tuple[int, int]]) -> None:
        """Copy parts of another process's memory to parts of this one's, each an address and a size in bytes.

        Raises OSError.
        """
        there, here = list(theirs), list(ours)
        while there:
            now = there[:_MOST_PARTS]
            into = _first_bytes(here, sum(size for _, size in now))
            got = self._call(process, _list(into), len(into), _list(now), len(now), 0)
            if got <= 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            there, here = _rest(there, got), _rest(here, got)


def _list(parts: list[tuple[int, int]]) -> ctypes.Array[_Memory]:
    return (_Memory * len(parts))(*(_Memory(*part) for part in parts))


def _first_bytes(parts: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return the parts of the first bytes; at most as many as a system call takes."""
    found = []
    for start, length in parts[:_MOST_PARTS]:
        if not size:
            break
        found.append((start, min(length, size)))
        size -= found[-1][1]
    return found


def _rest(parts: list[tuple[int, int]], done: int) -> list[tuple[int, int]]:
    """Return the parts without the first bytes."""
    for place, (start, length) in enumerate(parts):
        if done < length:
            return [(start + done, length - done), *parts[place + 1 :]]
        done -= length
    return []


def address_of(array: Any) -> int:
    """Return where the values of an array begin."""
    return int(array.__array_interface__["data"][0])


class Vector:
    """All values of arrays of one type, as one vector.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of values of the arrays.
    itemsize : int
        Bytes of a value.
    """

    def __init__(self, sizes: Sequence[int], itemsize: int) -> None:
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        self._itemsize = itemsize
        self.size = self._starts[-1]

    def parts(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Return where values [begin, end) are: numbers of arrays, first and last places in them."""
        which = int(np.searchsorted(self._starts, begin, "right")) - 1
        while begin < end:
            start, stop = self._starts[which : which + 2]
            if stop > begin:
                yield which, begin - start, min(end, stop) - start
                begin = min(end, stop)
            which += 1

    def memory(self, addresses: Sequence[int], begin: int, end: int) -> list[tuple[int, int]]:
        """Return the memory of values [begin, end) of arrays that begin at these addresses."""
        return [
            (addresses[which] + start * self._itemsize, (stop - start) * self._itemsize)
            for which, start, stop in self.parts(begin, end)
        ]

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut values [begin, end) into pieces that stay in the processor's cache."""
        step = READ_PIECE // self._itemsize
        for first in range(begin, end, step):
            yield first, min(end, first + step)


def add_rounded(target: Any, parts: Sequence[Any], narrow: Any, *, rounds: bool) -> None:
    """Add arrays in their order, each rounded to a narrow type, and the sum, too, if it ``rounds``."""
    with np.errstate(over="ignore", invalid="ignore"):  # the program's numbers are the program's business
        if narrow is not None:
            parts = [part.astype(narrow).astype(target.dtype) for part in parts]
        np.add(parts[0], parts[1], out=target)
        for part in parts[2:]:
            np.add(target, part, out=target)
        if rounds:
            target[...] = target.astype(narrow)
