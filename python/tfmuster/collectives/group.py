"""The connections of this process to the other workers, and sums of tensors over them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..net.ports import close_in_children
from ..system.compiled import NotCompiled, compiled
from ..system.say import say
from .in_numpy import NumpyExchange
from .transport import TYPES, Array, SumError

if TYPE_CHECKING:
    import tensorflow as tf

_SOURCE: Final = Path(__file__).with_name("exchange.c")
#: Every error of a sum has these words.
ABORTED: Final = "A sum over the workers was aborted"
#: An error has these words if the workers do not run the same operations.
OTHER_OPERATION: Final = "is at another operation"


class Times(NamedTuple):
    """What the sums of this process have taken so far."""

    operations: int
    seconds: float
    #: Of the seconds, those until the last of the other workers had begun the same operation.
    waited: float
    #: Bytes.
    sent: float
    #: For each worker, how many seconds this one has waited for it. Waiting for several overlaps.
    late: tuple[float, ...]


class Group:
    """All workers of a job.

    `names` is the order in which values are added, and `sockets` has a connected socket for each worker, None
    for this one.
    """

    def __init__(self, rank: int, names: Sequence[str], sockets: Sequence[socket.socket | None]) -> None:
        self.rank, self.names = rank, tuple(names)
        #: Why the sums are computed with numpy; empty if they are computed in C.
        self.why_numpy = ""
        #: Whether workers of one machine may read each other's memory, which is faster than TCP. With several
        #: machines, those of each then add up theirs first. Set it before the first sum, and alike on all.
        self.share = True
        #: The same on all workers.
        self.one_machine = all(s is None or _within_machine(s) for s in sockets)
        self._sockets = sockets
        self._numpy: NumpyExchange | None = None
        self._library: ctypes.CDLL | None = None
        self._reason = ""
        #: TensorFlow's operation, once it is loaded; None if TensorFlow was not there when the library was.
        self._operation: Any = None
        for connection in self.open_files():
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _unpace(connection)
        try:
            library_path()  # compile it now, while the workers start
        except NotCompiled as error:
            self._use_numpy(str(error))
        close_in_children(self)

    def open_files(self) -> list[socket.socket]:
        """Return the sockets, which forked children close."""
        return [s for s in self._sockets if s is not None]

    def abort(self, reason: str) -> None:
        """End the current operation and all later ones, with this reason. Any thread may call it."""
        self._reason = reason
        if self._numpy is not None:
            self._numpy.abort(reason)
        elif self._library is not None:
            self._library.tfmuster_abort(reason.encode())

    def times(self) -> Times:
        """Return what the sums have taken so far."""
        numbers = [0.0] * (4 + len(self.names))
        if self._numpy is not None:
            numbers = self._numpy.times()
        elif self._library is not None:
            counts = (ctypes.c_double * len(numbers))()
            self._library.tfmuster_times(counts)
            numbers = list(counts)
        return Times(int(numbers[0]), numbers[1], numbers[2], numbers[3], tuple(numbers[4:]))

    def sum_arrays(self, arrays: Sequence[Array], *, wire: str | None = None, key: int = 0) -> list[Array]:
        """Return the sums of numpy arrays over the workers. All workers call it at the same place.

        The arrays are contiguous, all of one type: float32, float64, int32 or int64. ``wire`` ("bfloat16" or
        "float16") sends float32 as this type; they are added as float32. ``key`` tells operations apart that
        workers could confuse. Raises SumError if a worker is gone or at another operation, or the job has
        failed.
        """
        code = TYPES[wire] if wire else 0
        self._start()
        if self._numpy is not None:
            return self._numpy.sum(arrays, code, key)
        import numpy as np

        assert self._library is not None
        sums = [np.empty_like(array) for array in arrays]
        count = len(sums)
        failed = self._library.tfmuster_sum(
            count,
            (ctypes.c_void_p * count)(*[array.ctypes.data for array in arrays]),
            (ctypes.c_void_p * count)(*[array.ctypes.data for array in sums]),
            (ctypes.c_int64 * count)(*[array.size for array in arrays]),
            TYPES[arrays[0].dtype.name],
            code,
            key,
        )
        if failed:
            raise SumError(self._library.tfmuster_failure().decode(errors="replace"))
        return sums

    def sum_tensors(self, tensors: Sequence[tf.Tensor], *, wire: str | None = None) -> list[tf.Tensor]:
        """Return the sums of tensors over the workers, equal on all of them bit by bit.

        The tensors are dense and of one type; see :meth:`sum_arrays`. The operation is part of the graph if
        one is being traced, and all workers must trace the same program. When it runs, it raises a
        tf.errors.InternalError with `ABORTED` in its text for a SumError.
        """
        import tensorflow as tf

        key = _key()
        self._start()
        if self._operation is not None:
            return list(self._operation(values=tensors, wire=TYPES[wire] if wire else 0, key=key))

        def run(*values: Array) -> list[Array]:
            try:
                return self.sum_arrays(values, wire=wire, key=key)
            except SumError as error:
                raise tf.errors.InternalError(None, None, f"{ABORTED}: {error}.") from error

        types = [tensor.dtype for tensor in tensors]
        # TensorFlow returns one tensor, and not a list of it, when it runs eagerly.
        sums = tf.nest.flatten(tf.numpy_function(run, list(tensors), types, stateful=True))
        for total, tensor in zip(sums, tensors, strict=True):
            total.set_shape(tensor.shape)
        return list(sums)

    def _start(self) -> None:
        """Load the C library when it is used first, and give it the sockets; or let numpy have them."""
        if self._numpy is not None or self._library is not None:
            return
        near = [self.share and s is not None and _within_machine(s) for s in self._sockets]
        if self.why_numpy:
            all_near = sum(near) == len(self.names) - 1
            self._numpy = NumpyExchange(self.rank, self._sockets, self.names, near=all_near)
            if self._reason:
                self._numpy.abort(self._reason)
            return
        try:
            # TensorFlow must load the library first, to notice the operation that comes with it.
            if "tensorflow" in sys.modules:
                self._operation = _load_operation()
            loaded = library()
            workers = len(self.names)
            numbers = (ctypes.c_int * workers)(*[-1 if s is None else s.fileno() for s in self._sockets])
            texts = (ctypes.c_char_p * workers)(*[name.encode() for name in self.names])
            if loaded.tfmuster_open(self.rank, workers, numbers, texts, (ctypes.c_int * workers)(*near)):
                raise NotCompiled("memory is short")
        except NotCompiled as error:
            self._use_numpy(str(error))
            self._start()
            return
        self._library = loaded
        if self._reason:
            loaded.tfmuster_abort(self._reason.encode())

    def _use_numpy(self, why: str) -> None:
        self.why_numpy = why
        here = self.names[self.rank]
        say(f"tfmuster: {here} sums gradients with numpy, which takes longer than tfmuster's C code: {why}")


@functools.cache
def library_path() -> Path:
    """Return the path of the compiled library; see :func:`tfmuster.system.compiled.compiled`."""
    return compiled(_SOURCE)


@functools.cache
def library() -> ctypes.CDLL:
    """Load the library. Raises NotCompiled."""
    try:
        loaded = ctypes.CDLL(str(library_path()))
    except OSError as error:  # such as a cache on a file system that forbids execution
        raise NotCompiled(f"it can't be loaded: {error}") from error
    loaded.tfmuster_failure.restype = ctypes.c_char_p
    loaded.tfmuster_abort.argtypes = [ctypes.c_char_p]
    loaded.tfmuster_abort.restype = None
    loaded.tfmuster_times.argtypes = [ctypes.POINTER(ctypes.c_double)]
    loaded.tfmuster_times.restype = None
    loaded.tfmuster_sum.argtypes = [
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    return loaded


def _load_operation() -> Any:
    """Return the function that adds the operation to a graph, or None. Raises NotCompiled."""
    import tensorflow as tf

    try:
        return getattr(tf.load_op_library(str(library_path())), "tfmuster_sum", None)
    except tf.errors.OpError as error:
        raise NotCompiled(f"TensorFlow can't load it: {error}") from error


def _key() -> int:
    """Return the number of this sum within the function that is being traced."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return 0
    graph = tf.compat.v1.get_default_graph()
    key = getattr(graph, "_tfmuster_sums", 0) + 1
    graph._tfmuster_sums = key
    return int(key)


def _unpace(connection: socket.socket) -> None:
    """Take the congestion control that every Linux has for a connection within this machine.

    The timers of BBR, the default of some systems, take up to half of the time of a sum there.
    """
    with contextlib.suppress(OSError, AttributeError):
        if _within_machine(connection):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _within_machine(connection: socket.socket) -> bool:
    """Return whether both ends of a connection have the same address."""
    with contextlib.suppress(OSError):
        return bool(connection.getsockname()[0] == connection.getpeername()[0])
    return False


_groups: list[Group] = []


def open_group(rank: int, names: Sequence[str], sockets: Sequence[socket.socket | None]) -> Group:
    """Make the group of this process. See :class:`Group`."""
    group = Group(rank, names, sockets)
    _groups[:] = [group]
    return group


def current_group() -> Group | None:
    """Return the group of this process; None if it has none."""
    return _groups[0] if _groups else None
