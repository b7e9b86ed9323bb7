"""Read rows of CSV and Parquet files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DependencyError
from . import CHUNK_BYTES, Chunk, Columns, bad_file, checked, empty_file

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow


class _TableRows:
    """Rows of files with named columns, of which one may be the label."""

    def __init__(self, label: str | None, columns: Sequence[str] | None) -> None:
        self.label = label
        self.columns = [columns] if isinstance(columns, str) else columns

    def _wanted(self, names: Sequence[str]) -> list[str]:
        """Return which of a file's columns the model gets, the label last."""
        columns = self.columns or [name for name in names if name != self.label]
        return [*columns, *([self.label] if self.label else [])]

    def finish(self, columns: Columns) -> Any:
        """Return the features, or features and labels."""
        return columns if self.label else columns[0]


class CsvRows(_TableRows):
    """Rows of CSV files with a header line; make it with :func:`csv_rows`."""

    def __init__(self, label: str | None, columns: Sequence[str] | None, delimiter: str) -> None:
        super().__init__(label, columns)
        self.delimiter = delimiter
        self.names: list[str] = []

    def chunks(self, paths: Sequence[str]) -> list[Chunk]:
        """Count the lines of each file, which reads it once."""
        chunks: list[Chunk] = []
        for path, _ in checked(paths):
            with open(path, "rb") as file:
                header = file.readline()
                self._check_header(
                    path, next(csv.reader([header.decode("utf-8-sig")], delimiter=self.delimiter))
                )
                place, first = len(header), 0
                while text := file.read(CHUNK_BYTES):
                    text += file.readline()
                    rows = text.count(b"\n") + (not text.endswith(b"\n"))
                    chunks.append(Chunk(path, rows, first, (place, len(text))))
                    place, first = place + len(text), first + rows
            if first == 0:
                raise empty_file(path)
        return chunks

    def _check_header(self, path: str, names: list[str]) -> None:
        wanted = [*(self.columns or ()), *([self.label] if self.label else ())]
        missing = [name for name in wanted if name not in names]
        if missing or (self.names and names != self.names):
            raise bad_file(
                "All CSV files must begin with the same line of names, which has the columns that you want.",
                path,
                "columns",
                found=f"the names {', '.join(names)}"
                + (f", without {', '.join(missing)}" if missing else ""),
                fix=f"give it the columns {', '.join(self.names or wanted)}, or leave the file out",
            )
        self.names = names

    def read(self, chunk: Chunk) -> Columns:
        """Read the lines of a chunk, as numbers."""
        place, size = chunk.where
        with open(chunk.path, "rb") as file:
            file.seek(place)
            text = file.read(size).decode()
        wanted = [self.names.index(name) for name in self._wanted(self.names)]
        values = np.empty((chunk.rows, len(wanted)), np.float32)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        for number, line in enumerate(lines):
            try:
                if len(line) != len(self.names):
                    raise ValueError(f"{len(line)} values in place of {len(self.names)}")
                values[number] = [line[index] for index in wanted]
            except (ValueError, IndexError) as error:
                raise bad_file(
                    "Every line of a CSV file must have one number for each column.",
                    chunk.path,
                    "bad-line",
                    row=chunk.first + number + 1,
                    found=str(error),
                    fix="correct the line; rows are counted without the line of names",
                ) from error
        return (values[:, :-1], values[:, -1]) if self.label else (values,)


def csv_rows(
    label: str | None = None, *, columns: Sequence[str] | None = None, delimiter: str = ","
) -> CsvRows:
    """Make a reader of CSV files whose first line has the names of the columns and whose values are numbers.

    Parameters
    ----------
    label : str, optional
        Name of the column that is the label. The model gets ``(x, y)`` with it, else ``x``.
    columns : sequence of str, optional
        Names of the columns of ``x``. Default: all others.
    delimiter : str
        Character between values.

    Returns
    -------
    CsvRows
        A reader for :func:`file_batches`: ``x`` is float32 of shape (batch, columns), ``y`` float32 of shape
        (batch,). Values with line breaks in them are not supported.
    """
    return CsvRows(label, columns, delimiter)


class ParquetRows(_TableRows):
    """Rows of Parquet files; make it with :func:`parquet_rows`."""

    def chunks(self, paths: Sequence[str]) -> list[Chunk]:
        """Read the description at the end of each file. A chunk is a row group."""
        parquet, chunks, schema = _pyarrow(), [], None
        for path, _ in checked(paths):
            try:
                about = parquet.ParquetFile(path)
            except Exception as error:
                raise bad_file(
                    "Every file must be a Parquet file.",
                    path,
                    "not-parquet",
                    found=str(error).splitlines()[0],
                    fix="write it again, or leave it out",
                ) from error
            wanted = self._wanted(about.schema_arrow.names)
            missing = [name for name in wanted if name not in about.schema_arrow.names]
            types = {name: str(about.schema_arrow.field(name).type) for name in wanted if name not in missing}
            if missing or (schema is not None and types != schema):
                expected = schema or dict.fromkeys(wanted, "any type")
                raise bad_file(
                    "All Parquet files must have the same columns.",
                    path,
                    "schema",
                    found=", ".join(f"{name} {kind}" for name, kind in types.items())
                    or "none of the columns",
                    fix="write it with " + ", ".join(f"{name} {kind}" for name, kind in expected.items()),
                )
            schema, self.columns = types, wanted[:-1] if self.label else wanted
            if about.metadata.num_rows == 0:
                raise empty_file(path)
            first = 0
            for group in range(about.num_row_groups):
                rows = about.metadata.row_group(group).num_rows
                if rows:
                    chunks.append(Chunk(path, rows, first, group))
                first += rows
            about.close()
        return chunks

    def read(self, chunk: Chunk) -> Columns:
        """Read the columns of a row group."""
        names = self._wanted(())
        try:
            with _pyarrow().ParquetFile(chunk.path) as file:
                table = file.read_row_group(chunk.where, columns=names, use_threads=False)
            values = [_array(table.column(name).combine_chunks()) for name in names]
        except Exception as error:
            raise bad_file(
                "A Parquet file must have numbers, or lists of equally many numbers, in every row.",
                chunk.path,
                "bad-rows",
                row=chunk.first + 1,
                found=str(error).splitlines()[0],
                fix="write it again without missing values, or leave the column out",
            ) from error
        y = [values.pop()] if self.label else []
        same = all(value.dtype == values[0].dtype and value.ndim == 1 for value in values)
        x = values[0] if len(values) == 1 else np.stack(values, 1) if same else np.column_stack(values)
        return (x, *y)


def _array(column: pyarrow.Array) -> npt.NDArray[Any]:
    """Return a column of numbers, or of lists of equally many numbers, as an array."""
    if column.null_count:
        raise ValueError(f"{column.null_count} missing values")
    lists = hasattr(column, "flatten") and str(column.type).startswith(
        ("list", "large_list", "fixed_size_list")
    )
    values: npt.NDArray[Any] = (column.flatten() if lists else column).to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1) if lists else values


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DependencyError(
            "Parquet files are read by the package pyarrow.",
            found=str(error),
            fix="pip install 'tfmuster[parquet]'",
            package="pyarrow",
        ) from error
    return pyarrow.parquet


def parquet_rows(label: str | None = None, *, columns: Sequence[str] | None = None) -> ParquetRows:
    """Make a reader of Parquet files with columns of numbers, or of lists of equally many numbers.

    Parameters
    ----------
    label, columns
        See :func:`csv_rows`.

    Returns
    -------
    ParquetRows
        A reader for :func:`file_batches`. ``x`` is the column if there is one, else the columns side by side.
        One row group is read at once, so write groups of at most some thousand rows.
    """
    return ParquetRows(label, columns)
