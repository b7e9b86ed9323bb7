"""Values of other machines come back as they were, and nothing in their file can run."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import io
import json
import math
import pathlib
import pickle
import uuid
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from tfmuster.tracking.values.plain_values import (
    DamagedError,
    NotPlainError,
    PackedModel,
    error_from,
    plain_error,
    read_plain,
    write_plain,
)


def there_and_back(value: Any) -> Any:
    file = io.BytesIO()
    write_plain(file, value)
    return read_plain(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -(10**30), 0.1, "text \udc80 \u2028", b"\x00\xff", bytearray(b"ab")),
        [1, (2.5, {"a": {1, 2}, (1, "b"): frozenset("x")}), [[]], {}],
        OrderedDict(b=1, a=2),
        [1j, range(3, 9, 2), pathlib.Path("/a/b"), uuid.UUID(int=7)],
        [decimal.Decimal("1.10"), fractions.Fraction(1, 3)],
        [dt.datetime(2026, 1, 2, 3, 4, 5, 6), dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)],
        [dt.date(2026, 1, 2), dt.timedelta(days=1, microseconds=3)],
    ],
)
def test_builtin_values(value: Any) -> None:
    got = there_and_back(value)
    assert got == value
    assert type(got) is type(value)


def test_numbers_that_are_none() -> None:
    assert math.isnan(there_and_back(float("nan")))
    assert there_and_back([math.inf, -math.inf]) == [math.inf, -math.inf]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="float32").reshape(2, 3),
        np.zeros((0, 3), dtype="int8"),
        np.array(["a", "bc"]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.asfortranarray(np.eye(3)),
        np.array(3.5),
    ],
)
def test_arrays(array: Any) -> None:
    got = there_and_back({"a": array})["a"]
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(got, array)


def test_numpy_scalars_and_arrays_of_objects() -> None:
    got = there_and_back([np.float32(1.5), np.bool_(True), np.int64(3)])
    assert [type(value) for value in got] == [np.float32, np.bool_, np.int64]
    objects = np.array([["a", None], [[1], [2]]], dtype=object)
    got = there_and_back(objects)
    assert got.shape == (2, 2)
    assert got.tolist() == objects.tolist()


def test_a_model_is_bytes() -> None:
    assert there_and_back(PackedModel(b"model")).data == b"model"


class Own:
    """A class of the user's own."""


class OwnList(list):
    """Another."""


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": [1, Own()]}, "value['a'][1] is a "),
        (OwnList([1]), "value is a "),
        (len, "value is a builtins.builtin_function_or_method"),
        (np.array([Own()], dtype=object), "an element of value is a "),
        (np.array([(1, None)], dtype=[("a", "i4"), ("b", "O")]), "value has the data type"),
    ],
)
def test_what_has_no_plain_form_is_named(value: Any, found: str) -> None:
    with pytest.raises(NotPlainError) as caught:
        write_plain(io.BytesIO(), value)
    assert str(caught.value).startswith(found)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotPlainError, match="nested too deeply"):
        write_plain(io.BytesIO(), value)


class Evil:
    """Its pickle leaves a trace when it is read."""

    def __reduce__(self) -> Any:
        return pathlib.Path.touch, (pathlib.Path("trace"),)


def archive(document: Any, compression: int = zipfile.ZIP_STORED, **members: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        made.writestr("value.json", json.dumps(document))
        for name, content in members.items():
            made.writestr(name.removeprefix("m"), content)
    return file


def object_array() -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array([Evil()], dtype=object), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    "file",
    [
        io.BytesIO(pickle.dumps(Evil())),
        io.BytesIO(b""),
        archive({"array": 0}, m0=object_array()),
        archive({"array": 0}, m0=pickle.dumps(Evil())),
        archive({"archive": 0}),
        archive({"__class__": 0}),
        archive({"model": 1}),
        archive([1]),
        archive({"range": [1, 2, 3, 4]}),
        archive({"list": ["x" * 100_000]}, zipfile.ZIP_DEFLATED),
    ],
)
def test_nothing_runs_and_nothing_is_unpacked(
    file: io.BytesIO, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DamagedError):
        read_plain(file)
    assert not list(tmp_path.iterdir())


def test_a_document_that_is_nested_without_end() -> None:
    text = '{"list":[' * 100_000 + "]}" * 100_000
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("value.json", text)
    with pytest.raises(DamagedError):
        read_plain(file)


class TestErrors:
    @pytest.mark.parametrize("error", [KeyError("no such digit"), ValueError("a", 1), OSError(2, "gone")])
    def test_a_builtin_error(self, error: Exception) -> None:
        got = error_from(there_and_back(plain_error(error)))
        assert (type(got), got.args) == (type(error), error.args)  # type: ignore[union-attr]

    def test_one_of_the_users_own(self) -> None:
        with pytest.raises(NotPlainError, match="OwnError"):
            plain_error(OwnError())

    @pytest.mark.parametrize(
        "plain",
        [
            None,
            {"type": "eval", "args": ["1"]},
            {"type": "SystemExit", "args": []},
            {"type": "UnicodeDecodeError", "args": []},
        ],
    )
    def test_what_is_no_error(self, plain: Any) -> None:
        assert error_from(plain) is None


class OwnError(Exception):
    """An error of the user's own."""


class TestPandas:
    pd = pytest.importorskip("pandas")

    def test_frames_and_series(self) -> None:
        pd = self.pd
        frame = pd.DataFrame(
            {
                "a": [1, 2],
                "b": ["x", None],
                "c": pd.to_datetime(["2026-01-01", "2026-07-01"]).tz_localize("Europe/Berlin"),
                "d": [True, False],
                "e": pd.to_datetime(["2026-01-01", None]),
            },
            index=pd.Index(["r", "s"], name="row"),
        )
        pd.testing.assert_frame_equal(there_and_back(frame), frame)
        pd.testing.assert_series_equal(there_and_back(frame["a"]), frame["a"])
        repeated = pd.DataFrame([[1, 2.5]], columns=["a", "a"])
        pd.testing.assert_frame_equal(there_and_back(repeated), repeated, check_index_type=False)

    def test_what_numpy_does_not_have(self) -> None:
        with pytest.raises(NotPlainError, match="category"):
            write_plain(io.BytesIO(), self.pd.DataFrame({"a": self.pd.Categorical(["x"])}))
