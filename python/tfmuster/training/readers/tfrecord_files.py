"""Read rows of TFRecord files."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from . import CHUNK_BYTES, CHUNK_ROWS, Chunk, Columns, bad_file, checked

if TYPE_CHECKING:
    import numpy.typing as npt
    import tensorflow as tf


class TFRecordRows:
    """Rows of TFRecord files; make it with :func:`tfrecord_rows`."""

    def __init__(self, parse: Callable[[npt.NDArray[np.object_]], Any]) -> None:
        self._parse = parse

    def chunks(self, paths: Sequence[str]) -> list[Chunk]:
        """Find each record by the length in front of it; the records themselves are not read."""
        chunks = []
        for path, size in checked(paths):
            offsets: list[int] = []
            first = place = 0
            with open(path, "rb", buffering=0) as file:
                while place < size:
                    head = os.pread(file.fileno(), 8, place)
                    length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
                    offsets.append(place)
                    place += length + 16
                    if place > size:
                        raise _damaged_record(path, first + len(offsets))
                    if len(offsets) == CHUNK_ROWS or place - offsets[0] > CHUNK_BYTES:
                        chunks.append(Chunk(path, len(offsets), first, tuple(offsets)))
                        first, offsets = first + len(offsets), []
            if offsets:
                chunks.append(Chunk(path, len(offsets), first, tuple(offsets)))
        return chunks

    def read(self, chunk: Chunk) -> Columns:
        """Read the records of a chunk. TensorFlow compares their checksums."""
        from ...keras_compat import seams
        from ...system.register import require

        require([seams.TFRECORD_READER])
        reader = seams.TFRECORD_READER.get()(chunk.path)
        records = np.empty(chunk.rows, object)
        for number, offset in enumerate(chunk.where):
            try:
                records[number] = reader.read(offset)[0]
            except Exception as error:
                raise _damaged_record(chunk.path, chunk.first + number + 1) from error
        return (records,)

    def finish(self, columns: Columns) -> Any:
        """Parse a batch of records."""
        return self._parse(columns[0])


def _damaged_record(path: str, row: int) -> DataError:
    return bad_file(
        "A TFRecord file must consist of whole, uncompressed records.",
        path,
        "damaged-record",
        row=row,
        found="a record that is cut off or has a wrong checksum",
        fix="write the file again, without compression",
    )


def tfrecord_rows(
    features: Mapping[str, Any] | Callable[[tf.Tensor], Any], *, label: str | None = None
) -> TFRecordRows:
    """Make a reader of TFRecord files.

    Parameters
    ----------
    features : mapping or callable
        Features as ``tf.io.parse_example`` takes them, or a function that gets a batch of records, a string
        tensor of shape (batch,), and returns what the model gets, such as ``(x, y)``.
    label : str, optional
        Name of the feature that is the label.

    Returns
    -------
    TFRecordRows
        A reader for :func:`file_batches`. With one feature beside the label, the model gets that feature;
        with several, a dictionary of them.
    """
    if callable(features):
        return TFRecordRows(features)
    wanted = dict(features)

    def parse(records: npt.NDArray[np.object_]) -> Any:
        import tensorflow as tf

        parsed = tf.io.parse_example(tf.constant(records), wanted)
        y = parsed.pop(label) if label is not None else None
        x = next(iter(parsed.values())) if len(parsed) == 1 else parsed
        return x if label is None else (x, y)

    return TFRecordRows(parse)
