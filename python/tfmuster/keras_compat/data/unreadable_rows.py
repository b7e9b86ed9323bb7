"""Find the row of a ``tf.data`` pipeline that can't be read, because TensorFlow's error does not tell.

The steps of the pipeline run again on one row at a time, the lowest step first, until one of them fails.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...errors import DataError, TfmusterError
from .. import seams
from ..rows import map_elements
from .data_errors import data_error_in, exception_in, plain_text, unreadable_row
from .pipelines import call_of, kind_of

if TYPE_CHECKING:
    import tensorflow as tf

    from ..rows import Tensors

#: For how many seconds to search. A job should end within 10 seconds after the failure.
_SECONDS = 5.0

#: Steps that only choose or order rows.
_ORDERS = ("Shuffle", "Repeat", "Prefetch", "Options", "Cache", "Take", "Skip", "Shard")


class _Unreadable(NamedTuple):
    """A row that can't be read; see :func:`.unreadable_row`. The path is None if it is not known."""

    error: tf.errors.OpError
    path: str | None
    row: int | None


def cause_in(dataset: object, error: Exception) -> TfmusterError | None:
    """Return a named error for an error of TensorFlow in a call on a data set, if the data are its cause."""
    cause = data_error_in(error)
    if cause is not None and cause.fields["reason"] == "labels":
        return cause
    unreadable = name_unreadable(dataset, error)
    # A Python exception names its own line. That is less than a file.
    if cause is not None and (unreadable is None or unreadable.fields["path"] is None):
        return cause
    return unreadable


def name_unreadable(dataset: object, error: Exception) -> DataError | None:
    """Return the error for the row of a pipeline that caused an error of TensorFlow; None if none did."""
    import tensorflow as tf

    of_data = (
        tf.errors.InvalidArgumentError,
        tf.errors.DataLossError,
        tf.errors.NotFoundError,
        tf.errors.FailedPreconditionError,
        tf.errors.PermissionDeniedError,
        tf.errors.UnimplementedError,
        tf.errors.UnknownError,
    )
    if not isinstance(dataset, tf.data.Dataset) or not isinstance(error, of_data):
        return None
    steps = list(_lowest_first(dataset))
    if any(kind_of(step) == "FlatMap" for step in steps):
        return None  # A generator can't be started again.
    until = time.monotonic() + _SECONDS
    searches = [(_SEARCHES[kind_of(step)], step) for step in steps if kind_of(step) in _SEARCHES]
    try:
        unreadable = next(filter(None, (search(step, until) for search, step in searches)), None)
    except Exception:
        # The error of the training must not be lost because TensorFlow's private classes have changed.
        return None
    if unreadable is None:
        return None
    exception = exception_in(unreadable.error.message)
    text = ", in ".join(filter(None, exception)) if exception else plain_text(unreadable.error.message)
    return unreadable_row(text, unreadable.path, unreadable.row)


def _lowest_first(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    try:
        below = seams.INPUTS.of(dataset)()
    except (AttributeError, NotImplementedError):
        below = []
    for step in below:
        yield from _lowest_first(step)
    yield dataset


def _in_order(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the data set below shuffles and other steps that make no rows of their own."""
    while kind_of(dataset) in _ORDERS:
        (dataset,) = seams.INPUTS.of(dataset)()
    return dataset


def _first_error(dataset: tf.data.Dataset, until: float) -> tuple[int, tf.errors.OpError] | None:
    """Return the position and the error of the first element that can't be read."""
    import tensorflow as tf

    position, iterator = 0, iter(dataset)
    while time.monotonic() < until:
        try:
            if not iterator.get_next_as_optional().has_value():
                break
        except tf.errors.OpError as error:
            return position, error
        position += 1
    return None


def _in_text(step: tf.data.Dataset, until: float) -> _Unreadable | None:
    """Search the file of text or CSV."""
    paths = _paths_of(step)
    # Other arguments of the step are not known, so several files can't be told apart.
    error = _first_error(step, until) if len(paths) == 1 else None
    return error and _Unreadable(error[1], paths[0], error[0] + 1)


def _in_files(step: tf.data.Dataset, until: float) -> _Unreadable | None:
    """Search the files of TFRecord, or the data sets that an `interleave` makes, one after the other."""
    for position, (path, elements) in enumerate(_by_file(step)):
        if time.monotonic() > until:
            break
        if error := _first_error(elements, until):
            return _Unreadable(error[1], path, error[0] + 1 if path else position)
    return None


def _in_map(step: tf.data.Dataset, until: float) -> _Unreadable | None:
    """Search the elements to which a `map` applies its function."""
    import tensorflow as tf

    below, apply = _in_order(seams.INPUTS.of(step)()[0]), call_of(step)
    for path, elements in _by_file(below):
        error = None
        for suspect in _suspects(elements, until) if path is None else ():
            if error := _first_error(map_elements(elements.skip(suspect).take(1), apply), until):
                error = suspect, error[1]
                break
        if error is None:
            mapped = map_elements(elements, apply, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            error = _first_error(mapped, until)
        if error is None:
            continue
        position, cause = error
        if path is not None:
            return _Unreadable(cause, path, position + 1)
        missing = isinstance(cause, tf.errors.NotFoundError)
        file = _path_in(next(iter(elements.skip(position))), missing=missing)
        return _Unreadable(cause, file, None if file else position)
    return None


def _suspects(elements: tf.data.Dataset, until: float) -> list[int]:
    """Return the positions of files that do not begin or end as most files with their suffix do.

    To decode all images of a large folder would take too long.
    """
    import tensorflow as tf

    parts = tf.nest.flatten(elements.element_spec)
    texts = [n for n, spec in enumerate(parts) if spec == tf.TensorSpec([], tf.string)]
    if not texts:
        return []
    ends: list[tuple[str, bytes, bytes]] = []
    for batch in elements.map(lambda *parts: tf.nest.flatten(parts)[texts[0]]).batch(1024):
        ends += [_ends_of(os.fsdecode(name)) for name in batch.numpy()]
        if time.monotonic() > until:
            return []
    usual = set()
    for place in (1, 2):
        of_suffix = Counter(file[0] for file in ends)
        alike = Counter((file[0], file[place]) for file in ends)
        usual |= {(place, *key) for key, count in alike.items() if count > 0.9 * of_suffix[key[0]]}
    judged = {(place, suffix) for place, suffix, _ in usual}
    return [
        position
        for position, (suffix, *bounds) in enumerate(ends)
        if any((n, suffix) in judged and (n, suffix, end) not in usual for n, end in enumerate(bounds, 1))
    ]


def _ends_of(path: str) -> tuple[str, bytes, bytes]:
    """Return the suffix of a file, its first three bytes and its last two."""
    suffix = os.path.splitext(path)[1].lower()
    try:
        with open(path, "rb", buffering=0) as file:
            first = file.read(3)
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2))
            return suffix, first, file.read(2)
    except (OSError, ValueError):
        return suffix, b"", b""


def _paths_of(reader: tf.data.Dataset) -> list[str]:
    import tensorflow as tf

    names = seams.FILE_NAMES.of(reader)
    # TensorFlow gives a data set of names, or a tensor.
    names = names if isinstance(names, tf.data.Dataset) else tf.reshape(names, [-1])
    return [name.numpy().decode() for name in names]


def _by_file(dataset: tf.data.Dataset) -> Iterator[tuple[str | None, tf.data.Dataset]]:
    """Yield the path and the elements of each file that a data set reads; a path of None for other data."""
    import tensorflow as tf

    if kind_of(dataset) == "TFRecord":
        for path in _paths_of(dataset):
            yield path, tf.data.TFRecordDataset(path, seams.COMPRESSION.of(dataset))
    elif kind_of(dataset) in ("Interleave", "ParallelInterleave"):
        make = call_of(dataset)
        for element in _in_order(seams.INPUTS.of(dataset)()[0]):
            yield _path_in(element), make(element)
    else:
        yield None, dataset


def _path_in(element: Tensors, *, missing: bool = False) -> str | None:
    """Return the path of a file, if an element has one; with ``missing`` of one that does not exist."""
    import tensorflow as tf

    for part in tf.nest.flatten(element):
        if isinstance(part, tf.Tensor) and part.dtype == tf.string and part.shape.rank == 0:
            text = part.numpy()
            # A serialized record is bytes, too.
            if len(text) < 4096 and b"\0" not in text and (missing or os.path.exists(text)):
                return os.fsdecode(text)
    return None


_SEARCHES = {
    **dict.fromkeys(("TextLine", "Csv"), _in_text),
    **dict.fromkeys(("TFRecord", "Interleave", "ParallelInterleave"), _in_files),
    **dict.fromkeys(("Map", "ParallelMap"), _in_map),
}
