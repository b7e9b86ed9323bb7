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
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

_DOCUMENT = "value.json"
#: Data types of pandas whose values NumPy does not have.
_PANDAS_ONLY = ("category", "period", "interval", "Sparse")


class PackedModel:
    """A Keras model as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class NotPlainError(ValueError):
    """A value has a part that has no plain form. The text says which part, and its type."""


class DamagedError(ValueError):
    """A file is not what `write_plain` writes."""


def write_plain(file: BinaryIO, value: Any, where: str = "value") -> None:
    """Write a value. `where` is its name in errors; without one, errors name its keys.

    Raises
    ------
    NotPlainError
        The value is not made of None, booleans, numbers, text, bytes, dates, paths, NumPy arrays, tensors,
        pandas data, Keras models, and lists, tuples, sets and dicts of them.
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
    """Read a value. Whatever the file holds, no code of it runs.

    Raises
    ------
    DamagedError
        `write_plain` has not written this file.
    """
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


class _Writing:
    """Turns a value into JSON, and collects what writes its members."""

    def __init__(self) -> None:
        self.members: list[Callable[[Any], None]] = []

    def plain(self, value: Any, where: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        for name, (own, parts) in _SIMPLE.items():
            if kind is own:
                return {name: parts(value)}
        if kind in (list, tuple, set, frozenset):
            return {kind.__name__: [self.plain(part, f"{where}[{at}]") for at, part in enumerate(value)]}
        if kind in (dict, OrderedDict):
            name = "dict" if kind is dict else "ordered"
            return {
                name: [
                    [
                        self.plain(key, f"a key of {where}"),
                        self.plain(part, f"{where}[{key!r}]" if where else key),
                    ]
                    for key, part in value.items()
                ]
            }
        if kind in (bytes, bytearray):
            return {kind.__name__: self._member(lambda file: file.write(value))}
        if isinstance(value, pathlib.PurePath):
            return {"path": str(value)}
        if kind is PackedModel:
            return {"model": self._member(lambda file: file.write(value.data))}
        plain = self._numpy(value, where) or self._pandas(value, where) or self._tensor(value, where)
        if plain is None:
            raise NotPlainError(f"{where} is a {kind.__module__}.{kind.__qualname__}")
        return plain

    def _member(self, write: Callable[[Any], None]) -> int:
        self.members.append(write)
        return len(self.members) - 1

    def _array(self, array: Any, where: str) -> int:
        import numpy as np

        form: Any = np.lib.format
        if array.dtype.hasobject or form.descr_to_dtype(form.dtype_to_descr(array.dtype)) != array.dtype:
            raise NotPlainError(f"{where} has the data type {array.dtype}")
        return self._member(lambda file: form.write_array(file, array, allow_pickle=False))

    def _numpy(self, value: Any, where: str) -> dict[str, Any] | None:
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

    def _pandas(self, value: Any, where: str) -> dict[str, Any] | None:
        pd = sys.modules.get("pandas")
        if pd is None:
            return None
        if type(value) is pd.Series:
            name = self.plain(value.name, f"the name of {where}")
            return {"series": [self._values(value, where), self._values(value.index, where), name]}
        if type(value) is pd.DataFrame:
            columns = [self._values(value.iloc[:, at], where) for at in range(value.shape[1])]
            return {"frame": [columns, self._values(value.columns, where), self._values(value.index, where)]}
        return None

    def _values(self, column: Any, where: str) -> list[Any]:
        """The values, data type and name of a column, a row of names, or an index."""
        dtype, name = str(column.dtype), self.plain(column.name, f"a name in {where}")
        pd = sys.modules["pandas"]
        if isinstance(column, pd.MultiIndex) or dtype.startswith(
            ("category", "period", "interval", "Sparse")
        ):
            raise NotPlainError(f"{where} has an index or a column of the type {dtype}")
        values = column.to_numpy()
        if dtype.startswith("datetime64"):
            # With a time zone, its values would be objects; without, they are the times in UTC.
            values = column.to_numpy(dtype="datetime64[ns]")
        return [self.plain(values, where), dtype, name]

    def _tensor(self, value: Any, where: str) -> dict[str, Any] | None:
        tf = sys.modules.get("tensorflow")
        if tf is None or not tf.is_tensor(value) or type(value).__name__ != "EagerTensor":
            return None
        return {"tensor": self._array(value.numpy(), where)}


#: Types whose parts are plain already: how they are written.
_SIMPLE: Mapping[str, tuple[type, Callable[[Any], Any]]] = {
    "complex": (complex, lambda value: [value.real, value.imag]),
    "range": (range, lambda value: [value.start, value.stop, value.step]),
    "datetime": (datetime.datetime, lambda value: _naive(value).isoformat()),
    "date": (datetime.date, lambda value: value.isoformat()),
    "timedelta": (datetime.timedelta, lambda value: [value.days, value.seconds, value.microseconds]),
    "decimal": (decimal.Decimal, str),
    "fraction": (fractions.Fraction, lambda value: [value.numerator, value.denominator]),
    "uuid": (uuid.UUID, str),
}


def _naive(value: datetime.datetime) -> datetime.datetime:
    if value.tzinfo not in (None, datetime.timezone.utc):
        raise NotPlainError(f"a time has the time zone {value.tzinfo}")
    return value


class _Reading:
    """Turns JSON into the value, with the members of an archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def value(self, plain: Any) -> Any:
        if plain is None or type(plain) in (bool, int, float, str):
            return plain
        ((name, content),) = plain.items()
        if name in _MAKES:
            return _MAKES[name](content)
        return getattr(self, f"_{_OWN[name]}")(content)

    def _values(self, parts: list[Any]) -> list[Any]:
        return [self.value(part) for part in parts]

    def _pairs(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(part) for key, part in pairs}

    def _bytes(self, number: int) -> bytes:
        return self._archive.read(str(int(number)))

    def _array(self, number: int) -> Any:
        import numpy as np

        form: Any = np.lib.format
        return form.read_array(io.BytesIO(self._bytes(number)), allow_pickle=False)

    def _list(self, content: Any) -> Any:
        return self._values(content)

    def _tuple(self, content: Any) -> Any:
        return tuple(self._values(content))

    def _set(self, content: Any) -> Any:
        return set(self._values(content))

    def _frozenset(self, content: Any) -> Any:
        return frozenset(self._values(content))

    def _ordered(self, content: Any) -> Any:
        return OrderedDict(self._pairs(content))

    def _bytearray(self, content: Any) -> Any:
        return bytearray(self._bytes(content))

    def _model(self, content: Any) -> Any:
        return PackedModel(self._bytes(content))

    def _scalar(self, content: Any) -> Any:
        return self._array(content)[()]

    def _objects(self, content: Any) -> Any:
        import numpy as np

        shape, parts = content
        array = np.empty(len(parts), dtype=object)
        for at, part in enumerate(parts):
            array[at] = self.value(part)
        return array.reshape(shape)

    def _tensor(self, content: Any) -> Any:
        import tensorflow as tf

        return tf.convert_to_tensor(self._array(content))

    def _series(self, content: Any) -> Any:
        import pandas as pd

        column, index, name = content
        values = self._column(column).array
        return pd.Series(values, index=pd.Index(self._column(index)), name=self.value(name))

    def _frame(self, content: Any) -> Any:
        import pandas as pd

        columns, names, index = content
        # By number, because names of columns may repeat.
        made = {at: self._column(column).array for at, column in enumerate(columns)}
        frame = pd.DataFrame(made, index=pd.Index(self._column(index)))
        frame.columns = pd.Index(self._column(names))
        return frame

    def _column(self, content: Any) -> Any:
        import pandas as pd

        values, dtype, name = content
        if dtype.startswith("datetime64") and "," in dtype:
            made = pd.Series(self.value(values)).dt.tz_localize("UTC").astype(dtype)
        else:
            made = pd.Series(self.value(values)).astype(dtype)
        # An index has its name; the data of a column have none.
        return made.rename(self.value(name))


#: What makes a value of parts that hold no other values.
_MAKES: Mapping[str, Callable[[Any], Any]] = {
    "complex": lambda parts: complex(*parts),
    "range": lambda parts: range(*parts),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(*parts),
    "decimal": decimal.Decimal,
    "fraction": lambda parts: fractions.Fraction(*parts),
    "uuid": uuid.UUID,
    "path": pathlib.Path,
}
#: The method of `_Reading` for each other name.
_OWN = {
    **{name: name for name in ("list", "tuple", "set", "frozenset", "ordered", "bytes", "bytearray")},
    **{name: name for name in ("model", "array", "scalar", "objects", "tensor", "series", "frame")},
    "dict": "pairs",
}


def plain_error(error: BaseException) -> dict[str, Any]:
    """Return an exception as plain data: the name of a built-in one, and its arguments.

    Raises
    ------
    NotPlainError
        It is of another class, which only code could make.
    """
    kind = type(error)
    if getattr(builtins, kind.__name__, None) is not kind:
        raise NotPlainError(f"the error is a {kind.__module__}.{kind.__qualname__}")
    return {"type": kind.__name__, "args": list(error.args)}


def error_from(plain: Any) -> BaseException | None:
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
