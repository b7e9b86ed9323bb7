"""Read rows of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import DependencyError
from ..file_plan import Chunk
from .common import bad_file, checked, empty_file


class ParquetRows:
    """Rows of Parquet files; make it with :func:`parquet_rows`."""

    def __init__(self, label: str | None, columns: Sequence[str] | None) -> None:
        self.label, self.columns = label, columns

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
            names = self.columns or [name for name in about.schema_arrow.names if name != self.label]
            wanted = [*names, *([self.label] if self.label else [])]
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
            schema, self.columns = types, names
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

    def read(self, chunk: Chunk) -> tuple[Any, ...]:
        """Read the columns of a row group."""
        names = [*(self.columns or ()), *([self.label] if self.label else [])]
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

    def finish(self, columns: tuple[Any, ...]) -> Any:
        """Return the features, or features and labels."""
        return columns if self.label else columns[0]


def _array(column: Any) -> Any:
    """Return a column of numbers, or of lists of equally many numbers, as an array."""
    if column.null_count:
        raise ValueError(f"{column.null_count} missing values")
    if hasattr(column, "flatten") and str(column.type).startswith(("list", "large_list", "fixed_size_list")):
        values = column.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(column), -1)
    return column.to_numpy(zero_copy_only=False)


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
    label : str, optional
        Name of the column that is the label. The model gets ``(x, y)`` with it, else ``x``.
    columns : sequence of str, optional
        Names of the columns of ``x``. Default: all others.

    Returns
    -------
    ParquetRows
        A reader for :func:`file_batches`. ``x`` is the column if there is one, else the columns side by side.
        One row group is read at once, so write groups of at most some thousand rows.
    """
    return ParquetRows(label, [columns] if isinstance(columns, str) else columns)
