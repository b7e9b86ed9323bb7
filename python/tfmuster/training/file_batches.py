"""Read global batches from files: each worker opens only the files that its rows are in."""

from __future__ import annotations

import glob
import itertools
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, TfmusterError
from ..keras_compat.data.data_errors import keep_error, plain_text, unreadable_row
from ..keras_compat.rows import LocalBatch, attach_pipeline, part_of, suits_replicas, without_autotuning
from ..system.limits import usable_cores
from ..system.tensorflow_import import import_tensorflow
from .file_plan import FilePlan, Piece
from .readers import Columns, Reader

if TYPE_CHECKING:
    import tensorflow as tf

#: Batches whose chunks are read ahead.
_AHEAD = 2


def file_batches(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    read: Reader,
    batch_size: int,
    *,
    seed: int,
    shuffle: bool = True,
    strategy: tf.distribute.Strategy | None = None,
    steps: int | None = None,
    repeated: bool = False,
    drop_remainder: bool = False,
    first_epoch: int = 0,
) -> tf.data.Dataset:
    """Make an input pipeline of files for ``model.fit``, the same for every number of workers.

    Parameters
    ----------
    files : path or sequence of paths
        The files, or a pattern such as ``"data/*.tfrecord"``; for images, the folder. The same on every
        worker, each of which must be able to open them. Any number of files serves any number of workers.
    read : reader
        What :func:`tfrecord_rows`, :func:`csv_rows`, :func:`parquet_rows`, or :func:`image_rows` returns, or
        an object with their methods ``chunks``, ``read``, and ``finish``.
    batch_size : int
        Rows of one step on all replicas together.
    shuffle : bool
        Use a new order in each epoch, of the chunks of all files and of the rows in each chunk. A chunk is
        1,024 records, a row group, 4 MB of text, or an image. Each batch takes rows from 24 places of this
        order.
    seed, strategy, steps, repeated, drop_remainder, first_epoch
        See :func:`tfmuster.batches`.

    Returns
    -------
    tf.data.Dataset
        One element per global batch. Its attribute ``rows`` is the number of rows in all files, ``steps`` the
        number of batches in an epoch. With several workers, ``fit`` reads only the rows of this worker.

    Raises
    ------
    DataError
        There are no files; a file is missing, empty, or unlike the others; a row can't be read (while the
        data are read); or the batch does not suit. Fields: ``path``, ``row``, ``reason``.
    DependencyError
        ``pyarrow`` is missing, which reads Parquet files.
    """
    chunks = read.chunks(_paths(files))
    plan = FilePlan(chunks, int(batch_size), int(seed), bool(shuffle), drop_remainder=bool(drop_remainder))
    if not suits_replicas(plan.batch_size, strategy) or (drop_remainder and plan.batch_size > plan.rows):
        replicas = strategy.num_replicas_in_sync if strategy is not None else 1
        raise DataError(
            f"The batch size must be a positive multiple of the number of replicas, {replicas}, and with "
            "drop_remainder at most the number of rows.",
            found=f"{plan.batch_size} for {plan.rows} rows",
            fix="pass a batch size per replica, times the number of replicas",
            reason="batch-size",
        )
    import_tensorflow()
    import tensorflow as tf

    sample = _columns([Piece(0, np.array([0]))], {0: read.read(plan.chunks[0])})
    element = tf.nest.map_structure(tf.convert_to_tensor, read.finish(sample))
    spec = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), element)

    passes = range(sys.maxsize if repeated else plan.steps)
    all_steps = passes if steps is None else passes[:steps]

    def pipeline(
        part: int | None = None, parts: int = 1, *, every: tuple[int, int] = (0, 1), skip: int = 0
    ) -> tf.data.Dataset:
        numbers = all_steps[every[0] :: every[1]][skip:]

        def generate() -> Iterator[Any]:
            planned = _planned(plan, (part or 0, parts), numbers, first_epoch)
            yield from _generate(read, plan, None if part is None else (part, parts), planned)

        scalar = tf.TensorSpec([], tf.int64)
        sums = tf.TensorSpec([3], tf.float64)
        signature = spec if part is None else LocalBatch(spec, scalar, scalar, sums)
        data = tf.data.Dataset.from_generator(generate, output_signature=signature)
        is_endless = repeated and steps is None
        cardinality = tf.data.INFINITE_CARDINALITY if is_endless else len(numbers)
        data = data.apply(tf.data.experimental.assert_cardinality(cardinality))
        return without_autotuning(data.prefetch(2))

    whole = pipeline()
    order = f"shuffled by seed {plan.seed}, from epoch {first_epoch}" if plan.shuffle else "in order"
    names = [os.path.basename(chunk.path) for chunk in chunks]
    parts = zlib.crc32(
        "\n".join(f"{name} {c.first} {c.rows}" for name, c in zip(names, chunks, strict=True)).encode()
    )
    about = {
        "batches": f"of {plan.batch_size} of {plan.rows} rows {order}",
        "files": f"{', '.join(dict.fromkeys(names[:3]))}, ... in {len(names)} parts ({parts:08x})",
    }
    attach_pipeline(whole, pipeline, about)
    whole.rows, whole.steps = plan.rows, plan.steps
    return whole


def _paths(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files in sorted order for a pattern, else in the given order."""
    if isinstance(files, (str, os.PathLike)):
        text = os.path.expanduser(os.fspath(files))
        paths = sorted(glob.glob(text)) if glob.has_magic(text) else [text]
    else:
        paths = [os.path.expanduser(os.fspath(path)) for path in files]
    if not paths:
        raise DataError(
            "There must be at least one file.",
            found=f"no file that matches {files}" if isinstance(files, str) else "none",
            fix="check the pattern and the working directory",
            path=str(files),
            reason="no-files",
        )
    return paths


def _generate(
    read: Reader, plan: FilePlan, part: tuple[int, int] | None, planned: Iterator[tuple[int, list[Piece]]]
) -> Iterator[Any]:
    """Read the batches, or one worker's part of each: its number, and that of the workers."""
    tf = import_tensorflow()
    pool = ThreadPoolExecutor(usable_cores())
    loaded: dict[int, Future[Columns]] = {}
    waiting: list[tuple[int, list[Piece]]] = []
    try:
        while True:
            for step, pieces in itertools.islice(planned, _AHEAD + 1 - len(waiting)):
                waiting.append((step, pieces))
                for piece in pieces:
                    if piece.chunk not in loaded:
                        loaded[piece.chunk] = pool.submit(read.read, plan.chunks[piece.chunk])
            if not waiting:
                return
            step, pieces = waiting.pop(0)
            columns = _columns(pieces, {piece.chunk: loaded[piece.chunk].result() for piece in pieces})
            needed = {piece.chunk for _, later in waiting for piece in later} | {p.chunk for p in pieces}
            for chunk in [chunk for chunk in loaded if chunk not in needed]:
                del loaded[chunk]
            try:
                data = tf.nest.map_structure(np.asarray, read.finish(columns))
            except Exception as error:
                raise _unfinished(read, plan, pieces, columns) or error from error
            size = plan.size_of(step)
            start, stop = part_of(size, *(part or (0, 1)))
            yield data if part is None else LocalBatch(data, np.int64(stop - start), np.int64(size))
    except TfmusterError as error:
        keep_error(error)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _unfinished(read: Reader, plan: FilePlan, pieces: list[Piece], columns: Columns) -> DataError | None:
    """Return the error for the first row that a reader can't finish alone, or None."""
    tf = import_tensorflow()
    places = [
        (plan.chunks[piece.chunk], row)
        for piece in pieces
        for row in np.arange(plan.chunks[piece.chunk].rows)[piece.rows]
    ]
    for number, (chunk, row) in enumerate(places):
        try:
            read.finish(tuple(column[number : number + 1] for column in columns))
        except TfmusterError:
            return None
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if isinstance(error, tf.errors.OpError):
                text = plain_text(str(error))
            return unreadable_row(text, chunk.path, chunk.first + int(row) + 1)
    return None


def _planned(
    plan: FilePlan, part: tuple[int, int], numbers: Iterable[int], first_epoch: int
) -> Iterator[tuple[int, list[Piece]]]:
    """Yield the batches with these numbers, which are counted over all epochs, and what they consist of."""
    epoch, following = -1, -1
    batches: Iterator[list[Piece]] = iter(())
    for number in numbers:
        if number // plan.steps != epoch:
            epoch, following = number // plan.steps, number % plan.steps
            batches = plan.epoch(epoch + first_epoch, *part, following)
        for _ in range(number % plan.steps - following):
            next(batches)
        following = number % plan.steps + 1
        yield number % plan.steps, next(batches)


def _columns(pieces: list[Piece], loaded: dict[int, Columns]) -> Columns:
    """Lay the rows of all pieces end to end."""
    rows = [[column[piece.rows] for column in loaded[piece.chunk]] for piece in pieces]
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))
