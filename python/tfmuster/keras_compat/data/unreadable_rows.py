"""Find the row of a ``tf.data`` pipeline that can't be read, because TensorFlow's error does not tell.

The steps of the pipeline run again on one row at a time, the lowest step first, until one of them fails.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...errors import DataError, TfmusterError
from .. import seams
from .data_errors import exception_in, named, plain_text, unreadable_row
from .pipelines import call_of, kind_of

#: For how many seconds to search. A job should end within 10 seconds after the failure.
_SECONDS = 5.0

#: Steps that only choose or order rows.
_ORDERS = ("Shuffle", "Repeat", "Prefetch", "Options", "Cache", "Take", "Skip", "Shard")


class Unreadable(NamedTuple):
    """A row that can't be read.

    Attributes
    ----------
    error : tf.errors.OpError
        Its error.
    path : str or None
        The file that it comes from, if that is known.
    row : int or None
        Its number in the file, from 1, or in the data set, from 0; None if it is a whole file.
    """

    error: Any
    path: str | None
    row: int | None


def cause_in(dataset: Any, error: Exception) -> TfmusterError | None:
    """Return a named error for an error of TensorFlow in a call on a data set, if the data are its cause."""
    known = named(error)
    if known is not None and known.fields["reason"] == "labels":
        return known
    found = name_unreadable(dataset, error)
    # A Python exception names its own line. That is less than a file.
    return known if known is not None and (found is None or found.fields["path"] is None) else found


def name_unreadable(dataset: Any, error: Exception) -> DataError | None:
    """Return the error for the row that caused an error of TensorFlow, or None if no row is found.

    Parameters
    ----------
    dataset : tf.data.Dataset
        The pipeline that the program has made.
    error : tf.errors.OpError
        What a call of ``fit``, ``evaluate`` or ``predict`` has raised.
    """
    import tensorflow as tf

    errors = tf.errors
    of_data = (
        errors.InvalidArgumentError,
        errors.DataLossError,
        errors.NotFoundError,
        errors.FailedPreconditionError,
        errors.PermissionDeniedError,
        errors.UnimplementedError,
        errors.UnknownError,
    )
    if not isinstance(dataset, tf.data.Dataset) or not isinstance(error, of_data):
        return None
    if any(kind_of(step) == "FlatMap" for step in _lowest_first(dataset)):
        return None  # A generator can't be started again.
    try:
        found = find_unreadable(dataset, time.monotonic() + _SECONDS)
    except Exception:
        # The error of the training must not be lost because TensorFlow's private classes have changed.
        return None
    if found is None:
        return None
    where = [] if found.path is None else [found.path]
    where += [] if found.row is None else [f"row {found.row}"]
    said = exception_in(found.error.message)
    text = ", in ".join(filter(None, said)) if said else plain_text(found.error.message)
    return unreadable_row(text, found.path, found.row)


def find_unreadable(dataset: Any, until: float) -> Unreadable | None:
    """Return the first row of the lowest step that fails, or None.

    Parameters
    ----------
    dataset : tf.data.Dataset
        A pipeline.
    until : float
        When to stop the search, on the clock of `time.monotonic`.
    """
    for step in _lowest_first(dataset):
        search = _SEARCHES.get(kind_of(step))
        if search is not None and (found := search(step, until)) is not None:
            return found
    return None


def _lowest_first(dataset: Any) -> Iterator[Any]:
    try:
        below = seams.INPUTS.of(dataset)()
    except (AttributeError, NotImplementedError):
        below = []
    for each in below:
        yield from _lowest_first(each)
    yield dataset


def _in_order(dataset: Any) -> Any:
    """Return the data set below shuffles and other steps that make no rows of their own."""
    while kind_of(dataset) in _ORDERS:
        (dataset,) = seams.INPUTS.of(dataset)()
    return dataset


def _first_error(dataset: Any, until: float) -> tuple[int, Any] | None:
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


def _of_files(step: Any, until: float) -> Unreadable | None:
    """Search the files of TFRecord, text or CSV, one after the other."""
    import tensorflow as tf

    names = seams.FILE_NAMES.of(step)
    # TensorFlow gives a data set of names, or a tensor.
    names = [*names] if isinstance(names, tf.data.Dataset) else tf.reshape(names, [-1])
    paths = [name.numpy().decode() for name in names]
    if kind_of(step) != "TFRecord":
        # Their other arguments are not known, so several files can't be told apart.
        found = _first_error(step, until)
        return found and (Unreadable(found[1], paths[0], found[0] + 1) if len(paths) == 1 else None)
    for path in paths:
        if found := _first_error(tf.data.TFRecordDataset(path, seams.COMPRESSION.of(step)), until):
            return Unreadable(found[1], path, found[0] + 1)
    return None


def _of_each_file(step: Any, until: float) -> Unreadable | None:
    """Search the data sets that an `interleave` makes of each element below it."""
    make = call_of(step)
    for position, element in enumerate(_in_order(seams.INPUTS.of(step)()[0])):
        if time.monotonic() > until:
            break
        if found := _first_error(make(element), until):
            path = _path_in(element)
            return Unreadable(found[1], path, found[0] + 1 if path else position)
    return None


def _of_map(step: Any, until: float) -> Unreadable | None:
    """Search the elements to which a `map` applies its function."""
    import tensorflow as tf

    below, apply = _in_order(seams.INPUTS.of(step)()[0]), call_of(step)
    for path, elements in _by_file(below):

        @tf.autograph.experimental.do_not_convert
        def applied(*parts: Any) -> Any:
            return apply(parts if type(below.element_spec) is tuple else parts[0])

        found = None
        for suspect in _suspects(elements, until) if path is None else ():
            if error := _first_error(elements.skip(suspect).take(1).map(applied), until):
                found = suspect, error[1]
                break
        if found is None:
            mapped = elements.map(applied, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
            found = _first_error(mapped, until)
        if found is None:
            continue
        position, error = found
        if path is not None:
            return Unreadable(error, path, position + 1)
        missing = isinstance(error, tf.errors.NotFoundError)
        named = _path_in(next(iter(elements.skip(position))), missing=missing)
        return Unreadable(error, named, None if named else position)
    return None


def _suspects(elements: Any, until: float) -> list[int]:
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
        of_suffix = Counter(each[0] for each in ends)
        found = Counter((each[0], each[place]) for each in ends)
        usual |= {(place, *key) for key, count in found.items() if count > 0.9 * of_suffix[key[0]]}
    known = {(place, suffix) for place, suffix, _ in usual}
    return [
        position
        for position, (suffix, *each) in enumerate(ends)
        if any((n, suffix) in known and (n, suffix, end) not in usual for n, end in enumerate(each, 1))
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


def _by_file(dataset: Any) -> Iterator[tuple[str | None, Any]]:
    """Yield the path and the elements of each file that a data set reads; a path of None for other data."""
    import tensorflow as tf

    if kind_of(dataset) == "TFRecord":
        names = seams.FILE_NAMES.of(dataset)
        for name in names if isinstance(names, tf.data.Dataset) else tf.reshape(names, [-1]):
            path = name.numpy().decode()
            yield path, tf.data.TFRecordDataset(path, seams.COMPRESSION.of(dataset))
    elif kind_of(dataset) in ("Interleave", "ParallelInterleave"):
        make = call_of(dataset)
        for element in _in_order(seams.INPUTS.of(dataset)()[0]):
            yield _path_in(element), make(element)
    else:
        yield None, dataset


def _path_in(element: Any, *, missing: bool = False) -> str | None:
    """Return the path of a file, if an element has one; with ``missing`` of one that does not exist."""
    import tensorflow as tf

    for part in tf.nest.flatten(element):
        if isinstance(part, tf.Tensor) and part.dtype == tf.string and part.shape.rank == 0:
            text = part.numpy()
            # A serialized record is bytes, too.
            if len(text) < 4096 and b"\0" not in text and (missing or os.path.exists(text)):
                return os.fsdecode(text)
    return None


_SEARCHES: dict[str, Callable[[Any, float], Unreadable | None]] = {
    "TFRecord": _of_files,
    "TextLine": _of_files,
    "Csv": _of_files,
    "Interleave": _of_each_file,
    "ParallelInterleave": _of_each_file,
    "Map": _of_map,
    "ParallelMap": _of_map,
}
