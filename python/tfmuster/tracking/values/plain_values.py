"""Write and read the value of a function in a form that runs nothing: JSON, and arrays as ``.npy``.

A pickle runs code when it is read. So the values of workers on other machines arrive as a zip file without
compression: ``value.json`` holds the value, and refers to numbered members for NumPy arrays (read with
``allow_pickle=False``), bytes, and Keras models (loaded in Keras's safe mode).

Everything but None, booleans, numbers and text is an object of one key, which says what it is::

    {"list": [1, {"tuple": [2.5, "text"]}, {"array": 0}]}
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import fractions
import io
import json
import pathlib
import sys
import uuid
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import tensorflow as tf

_DOCUMENT = "value.json"
#: Data types of pandas whose values NumPy does not have.
_PANDAS_ONLY = ("category", "period", "interval", "Sparse")


@dataclass(frozen=True)
class PackedModel:
    """A Keras model as bytes."""

    data: bytes


class NotPlainError(ValueError):
    """A value has a part that has no plain form. The text says which part, and its type."""


class DamagedError(ValueError):
    """A file is not what `write_plain` writes."""


def write_plain(file: BinaryIO, value: object, where: str = "value") -> None:
    """Write a value. `where` is its name in errors; without one, errors name its keys.

    Raises NotPlainError unless it is made of None, booleans, numbers, text, bytes, dates, paths, NumPy
    arrays, tensors, pandas data, Keras models, and lists, tuples, sets and dicts of them.
    """
    writing = _Writing()
    try:
        text = json.dumps(writing.plain(value, where))
    except RecursionError:
        raise NotPlainError("the value is nested too deeply") from None
    except ValueError as error:
        # An integer of more digits than Python converts to text.
        raise error if isinstance(error, NotPlainError) else NotPlainError(str(error)) from None
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_DOCUMENT, text)
        for number, write in enumerate(writing.members):
            with archive.open(str(number), "w", force_zip64=True) as member:
                write(member)


def read_plain(file: BinaryIO) -> Any:
    """Read a value, running no code of the file. Raises DamagedError if `write_plain` has not written it."""
    try:
        with zipfile.ZipFile(file) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise DamagedError("compressed data")
            return _Reading(archive).value(json.loads(archive.read(_DOCUMENT)))
    except DamagedError:
        raise
    except Exception as error:
        # The parsers of the formats raise exceptions of many kinds.
        raise DamagedError(f"{type(error).__name__}: {error}") from error


def _npy() -> Any:
    """Return NumPy's module for the format of its files."""
    import numpy as np

    return np.lib.format


def _naive(value: datetime.datetime) -> str:
    if value.tzinfo not in (None, datetime.timezone.utc):
        raise NotPlainError(f"a time has the time zone {value.tzinfo}")
    return value.isoformat()


#: Types whose parts are plain already: how they are written, and read.
_SIMPLE: Mapping[type, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    complex: (lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    range: (lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    datetime.datetime: (_naive, datetime.datetime.fromisoformat),
    datetime.date: (datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.timedelta: (
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
    decimal.Decimal: (str, decimal.Decimal),
    fractions.Fraction: (
        lambda value: [value.numerator, value.denominator],
        lambda parts: fractions.Fraction(*parts),
    ),
    uuid.UUID: (str, uuid.UUID),
}
_READ_SIMPLE = {kind.__name__.lower(): read for kind, (_, read) in _SIMPLE.items()} | {"path": pathlib.Path}
_SEQUENCES = (list, tuple, set, frozenset)
_DICTS = {dict: "dict", OrderedDict: "ordered"}
_BYTES = {bytes: "bytes", bytearray: "bytearray", PackedModel: "model"}


class _Writing:
    """Turns a value into JSON, and collects what writes its members."""

    def __init__(self) -> None:
        self.members: list[Callable[[IO[bytes]], object]] = []

    def plain(self, value: Any, where: str) -> object:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind in _SIMPLE:
            return {kind.__name__.lower(): _SIMPLE[kind][0](value)}
        if kind in _SEQUENCES:
            return {kind.__name__: [self.plain(part, f"{where}[{at}]") for at, part in enumerate(value)]}
        if kind in _DICTS:
            parts = []
            for key, part in value.items():
                place = f"{where}[{key!r}]" if where else key
                parts.append([self.plain(key, f"a key of {where}"), self.plain(part, place)])
            return {_DICTS[kind]: parts}
        if kind in _BYTES:
            data = value.data if kind is PackedModel else value
            return {_BYTES[kind]: self._member(lambda file: file.write(data))}
        if isinstance(value, pathlib.PurePath):
            return {"path": str(value)}
        plain = self._numpy(value, where) or self._pandas(value, where) or self._tensor(value, where)
        if plain is None:
            raise NotPlainError(f"{where} is a {kind.__module__}.{kind.__qualname__}")
        return plain

    def _member(self, write: Callable[[IO[bytes]], object]) -> int:
        self.members.append(write)
        return len(self.members) - 1

    def _array(self, array: np.ndarray[Any, Any], where: str) -> int:
        npy = _npy()
        if array.dtype.hasobject or npy.descr_to_dtype(npy.dtype_to_descr(array.dtype)) != array.dtype:
            raise NotPlainError(f"{where} has the data type {array.dtype}")
        return self._member(lambda file: npy.write_array(file, array, allow_pickle=False))

    def _numpy(self, value: Any, where: str) -> dict[str, object] | None:
        np = sys.modules.get("numpy")
        if np is None:
            return None
        if type(value) is np.ndarray and value.dtype == object:
            parts = [self.plain(part, f"an element of {where}") for part in value.ravel()]
            return {"objects": [list(value.shape), parts]}
        if type(value) is np.ndarray:
            return {"array": self._array(value, where)}
        if isinstance(value, np.generic) and type(value).__module__ == "numpy":
            return {"scalar": self._array(np.asarray(value), where)}
        return None

    def _pandas(self, value: Any, where: str) -> dict[str, object] | None:
        pd = sys.modules.get("pandas")
        if pd is None:
            return None
        if type(value) is pd.Series:
            name = self.plain(value.name, f"the name of {where}")
            return {"series": [self._column(value, where), self._column(value.index, where), name]}
        if type(value) is pd.DataFrame:
            columns = [self._column(value.iloc[:, at], where) for at in range(value.shape[1])]
            return {"frame": [columns, self._column(value.columns, where), self._column(value.index, where)]}
        return None

    def _column(self, column: pd.Series | pd.Index, where: str) -> list[object]:
        """Return the values, data type and name of a column, a row of names, or an index."""
        dtype, name = str(column.dtype), self.plain(column.name, f"a name in {where}")
        pd = sys.modules["pandas"]
        if isinstance(column, pd.MultiIndex) or dtype.startswith(_PANDAS_ONLY):
            raise NotPlainError(f"{where} has an index or a column of the type {dtype}")
        # With a time zone, its values would be objects; without, they are the times in UTC.
        is_time = dtype.startswith("datetime64")
        values = column.to_numpy(dtype="datetime64[ns]") if is_time else column.to_numpy()
        return [self.plain(values, where), dtype, name]

    def _tensor(self, value: Any, where: str) -> dict[str, object] | None:
        tf = sys.modules.get("tensorflow")
        if tf is None or not tf.is_tensor(value) or type(value).__name__ != "EagerTensor":
            return None
        return {"tensor": self._array(value.numpy(), where)}


class _Reading:
    """Turns JSON into the value, with the members of an archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._readers: Mapping[str, Callable[[Any], object]] = {
            **_READ_SIMPLE,
            **{kind.__name__: self._sequence(kind) for kind in _SEQUENCES},
            **{name: self._dict(kind) for kind, name in _DICTS.items()},
            **{name: self._from_bytes(kind) for kind, name in _BYTES.items()},
            "array": self._array,
            "scalar": lambda number: self._array(number)[()],
            "objects": self._objects,
            "tensor": self._tensor,
            "series": self._series,
            "frame": self._frame,
        }

    def value(self, plain: Any) -> Any:
        if plain is None or type(plain) in (bool, int, float, str):
            return plain
        ((name, content),) = plain.items()
        return self._readers[name](content)

    def _sequence(self, kind: Callable[[Iterable[object]], object]) -> Callable[[list[object]], object]:
        return lambda parts: kind(map(self.value, parts))

    def _dict(self, kind: type[dict[Any, Any]]) -> Callable[[list[list[object]]], object]:
        return lambda pairs: kind((self.value(key), self.value(part)) for key, part in pairs)

    def _from_bytes(self, kind: Callable[[bytes], object]) -> Callable[[int], object]:
        return lambda number: kind(self._member(number))

    def _member(self, number: int) -> bytes:
        return self._archive.read(str(int(number)))

    def _array(self, number: int) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = _npy().read_array(io.BytesIO(self._member(number)), allow_pickle=False)
        return array

    def _objects(self, content: list[Any]) -> np.ndarray[Any, Any]:
        import numpy as np

        shape, parts = content
        array = np.empty(len(parts), dtype=object)
        for at, part in enumerate(parts):
            array[at] = self.value(part)
        return array.reshape(shape)

    def _tensor(self, number: int) -> tf.Tensor:
        import tensorflow as tf

        return tf.convert_to_tensor(self._array(number))

    def _series(self, content: list[Any]) -> pd.Series:
        import pandas as pd

        column, index, name = content
        values = self._column(column).array
        return pd.Series(values, index=pd.Index(self._column(index)), name=self.value(name))

    def _frame(self, content: list[Any]) -> pd.DataFrame:
        import pandas as pd

        columns, names, index = content
        # By number, because names of columns may repeat.
        arrays = {at: self._column(column).array for at, column in enumerate(columns)}
        frame = pd.DataFrame(arrays, index=pd.Index(self._column(index)))
        frame.columns = pd.Index(self._column(names))
        return frame

    def _column(self, content: list[Any]) -> pd.Series:
        import pandas as pd

        values, dtype, name = content
        column = pd.Series(self.value(values))
        if dtype.startswith("datetime64") and "," in dtype:
            column = column.dt.tz_localize("UTC")
        # An index has its name; the data of a column have none.
        return column.astype(dtype).rename(self.value(name))


def plain_error(error: BaseException) -> dict[str, Any]:
    """Return a built-in exception's name and arguments. Raises NotPlainError for other classes."""
    kind = type(error)
    if getattr(builtins, kind.__name__, None) is not kind:
        raise NotPlainError(f"the error is a {kind.__module__}.{kind.__qualname__}")
    return {"type": kind.__name__, "args": list(error.args)}


def error_from(plain: object) -> BaseException | None:
    """Return the exception that `plain_error` has described; None if there is none."""
    if not isinstance(plain, dict):
        return None
    kind = getattr(builtins, str(plain.get("type")), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return None
    try:
        return kind(*plain["args"])
    except Exception:
        # Some need other arguments than they report.
        return None
