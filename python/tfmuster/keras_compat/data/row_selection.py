"""Let each worker read and prepare only its own rows of a ``tf.data`` pipeline.

TensorFlow's way, and the plain way here, is that each worker computes every global batch and keeps its part.
For many pipelines the rows of a batch can be told before they are read: `shuffle`, `repeat`, `take`, `skip`,
and `batch` look at no values. So the same pipeline runs over *addresses* (row numbers of arrays in memory, or
what a reader delivers, such as records), is cut into the same global batches, and the worker keeps the
addresses of its own rows. Only then rows are gathered, and the functions given to `map` run: once for each
row in the whole job.

The rows and their order are the same as without this module: shuffles share their seed generators, and a
function that draws random numbers or has state stays where it is, together with everything below it
(:mod:`.pipelines`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from .. import seams
from ..rows import LocalBatch, Tensors, joined, local_batch, map_elements
from .pipelines import (
    PLAIN,
    StaysError,
    call_of,
    compared_of,
    dense,
    impure_operation,
    keeps_rows_apart,
    kind_of,
    name_of,
    shuffled_alike,
)


class Selection(NamedTuple):
    """How a worker gets its rows: the pipeline, or the part of it from its outermost `batch` to some step."""

    #: Data set of :class:`~.rows.LocalBatch`; None if each worker has to compute all rows.
    dataset: tf.data.Dataset
    #: What each worker reads and prepares, or why it is everything; one line.
    why: str
    #: Whether each worker reads the files of all rows.
    reads_all: bool = True
    #: Rows of a global batch.
    size: int = 0
    #: Whether the order differs between passes.
    reshuffles: bool = False
    #: Whether rows are gathered by their addresses, and no function runs on single rows.
    gathered: bool = False


class _Rows(NamedTuple):
    """A part of the pipeline below its outermost `batch`, as a data set of addresses."""

    addresses: tf.data.Dataset
    #: Makes an element from its address, and a batch of elements from a batch of addresses.
    look_up: Callable[[Tensors], Tensors]
    #: The functions of `map` on one element.
    finish: Callable[[Tensors], Tensors] | None = None
    #: The step at which the addresses begin, if they are not row numbers.
    why: str = ""
    #: Whether the order differs between passes.
    reshuffles: bool = False
    #: Whether a `cache` was above ``finish``.
    cached: bool = False


def select_rows(dataset: tf.data.Dataset, worker: int, workers: int) -> Selection:
    """Return this worker's parts of the global batches of a data set, computed from its own rows only."""
    # A later call of `fit` continues with the orders and the cached rows of this one.
    kept: dict[tuple[int, int], Selection] = dataset.__dict__.setdefault("_tfmuster_selection", {})
    if (worker, workers) not in kept:
        try:
            selection = _select(dataset, worker, workers)
            selection = selection._replace(dataset=selection.dataset.with_options(dataset.options()))
        except StaysError as stays:
            selection = Selection(None, str(stays))
        kept[worker, workers] = selection
    return kept[worker, workers]


def _select(
    dataset: tf.data.Dataset, worker: int, workers: int, above: tuple[tf.data.Dataset, ...] = ()
) -> Selection:
    """Translate a pipeline from its outermost `batch` on.

    ``above`` are a `rebatch` and the steps below it that set the borders of batches, from the lowest one up.
    They move down to the addresses, below the maps, which must not mix rows then.
    """
    kind, below = kind_of(dataset), seams.INPUTS.of(dataset)()
    if kind in ("Prefetch", "Options"):
        return _select(below[0], worker, workers, above)
    if kind in ("Batch", "ParallelBatch"):
        return _of_batch(dataset, worker, workers, above)
    if kind in ("Map", "ParallelMap"):
        return _of_batch_map(dataset, worker, workers, above)
    if kind == "Rebatch" and seams.REBATCH_SIZES.of(dataset).shape.rank == 0 and dense(dataset):
        # TensorFlow puts a map between, which makes sparse tensors dense, and names the elements anew.
        (mapped,) = seams.INPUTS.of(below[0])()
        (batches,) = seams.INPUTS.of(mapped)()
        return _select(batches, worker, workers, (dataset, *above))
    if above and kind == "Repeat":
        return _select(below[0], worker, workers, (dataset, *above))
    if above:
        raise StaysError(f"a rebatch is above {name_of(dataset)}, so every worker computes all rows")
    if kind == "Zip":
        return _zipped(dataset, [_select(part, worker, workers) for part in below])
    if kind not in (*PLAIN, "Shuffle", "Cache"):
        raise StaysError(f"batches come from {name_of(dataset)}, so every worker computes all rows")
    selection = _select(below[0], worker, workers)
    if kind in PLAIN:
        return selection._replace(dataset=PLAIN[kind](selection.dataset, dataset))
    if kind == "Shuffle":
        return selection._replace(
            dataset=shuffled_alike(selection.dataset, dataset),
            reshuffles=selection.reshuffles or bool(seams.RESHUFFLES.of(dataset)),
        )
    if selection.reshuffles:
        raise StaysError("a cache keeps the order of a shuffle, so every worker computes all rows")
    if seams.CACHE_FILE.of(dataset).numpy():
        raise StaysError("batches are cached in a file, so every worker computes all rows")
    return selection._replace(dataset=selection.dataset.cache())


def _of_batch(
    dataset: tf.data.Dataset, worker: int, workers: int, above: tuple[tf.data.Dataset, ...]
) -> Selection:
    """Return the worker's parts of the batches made by the outermost `batch`, and steps ``above`` it."""
    rows = _rows(seams.INPUTS.of(dataset)()[0])
    if rows.why and rows.finish is None:
        raise StaysError(f"rows come in order from {rows.why}, so every worker reads all of them")
    for spec in seams.NEST.get().flatten(rows.addresses.element_spec):
        # Addresses of a batch become one tensor.
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.is_fully_defined():
            raise StaysError(f"rows of {rows.why} may differ in shape, so every worker computes all rows")
    batched, size = rows.addresses, seams.BATCH_SIZE.of(dataset)
    for step in (dataset, *above):
        if kind_of(step) == "Repeat":
            batched = PLAIN["Repeat"](batched, step)
        elif kind_of(step) == "Rebatch":
            size = seams.REBATCH_SIZES.of(step)
            batched = batched.rebatch(size, drop_remainder=bool(seams.DROP_REMAINDER.of(step)))
        else:
            batched = batched.batch(size, drop_remainder=bool(seams.DROP_REMAINDER.of(step)))

    # Elements that are their own addresses need not be equal in all their parts.
    compared = compared_of(dataset) if rows.why else lambda batch: batch

    def part(batch: Tensors) -> LocalBatch:
        addresses = local_batch(batch, worker, workers, compared(batch))
        return addresses if rows.finish else addresses._replace(data=rows.look_up(addresses.data))

    parts = map_elements(batched, part)
    if rows.finish is not None:
        parts = _finished(parts, rows.look_up, rows.finish)
    if rows.cached:
        if any(kind_of(step) == "Repeat" for step in above):
            raise StaysError("a cache is below repeat and rebatch, so every worker computes all rows")
        parts = parts.cache()
    what = "prepares its own rows" if rows.why else "reads and prepares its own rows"
    note = f"each worker {what} only" + (f"; {rows.why} is read by every worker" if rows.why else "")
    return Selection(parts, note, bool(rows.why), int(size), rows.reshuffles, rows.finish is None)


def _finished(
    parts: tf.data.Dataset,
    look_up: Callable[[Tensors], Tensors],
    finish: Callable[[Tensors], Tensors],
) -> tf.data.Dataset:
    """Apply functions of single rows to the addresses of the worker's rows, several rows at a time."""

    @tf.autograph.experimental.do_not_convert
    def prepared(part: LocalBatch) -> tf.data.Dataset:
        count = tf.shape(tf.nest.flatten(part.data)[0], out_type=tf.int64)[0]
        addresses = tf.data.Dataset.from_tensor_slices(part.data)
        rows = map_elements(
            addresses, lambda address: finish(look_up(address)), num_parallel_calls=tf.data.AUTOTUNE
        )
        return map_elements(rows.batch(count), lambda batch: part._replace(data=batch))

    # The next batch begins while the last rows of this one are prepared.
    return parts.interleave(
        prepared, cycle_length=2, block_length=1, num_parallel_calls=2, deterministic=True
    )


def _of_batch_map(
    dataset: tf.data.Dataset, worker: int, workers: int, above: tuple[tf.data.Dataset, ...]
) -> Selection:
    """Return the worker's parts if a `map` is above the outermost `batch`."""
    (below,) = seams.INPUTS.of(dataset)()
    function, apply = seams.MAP_FUNCTION.of(dataset).function, call_of(dataset)
    if operation := impure_operation(function):
        raise StaysError(f"a map after batch uses {operation}, so every worker computes all rows")
    if keeps_rows_apart(function):
        selection = _select(below, worker, workers, above)

        def mapped(part: LocalBatch) -> LocalBatch:
            return part._replace(data=apply(part.data))
    else:
        if above:
            raise StaysError("a map below rebatch may mix rows, so every worker computes all rows")
        selection = _select(below, 0, 1)
        if not selection.gathered:
            raise StaysError("a map after batch may mix rows, so every worker computes all rows")
        note = "a map after batch may mix rows, so every worker gathers and maps whole batches"
        selection = selection._replace(why=note)

        def mapped(part: LocalBatch) -> LocalBatch:
            return local_batch(apply(part.data), worker, workers)._replace(sums=part.sums)

    return selection._replace(
        dataset=map_elements(selection.dataset, mapped, num_parallel_calls=tf.data.AUTOTUNE)
    )


def _zipped(dataset: tf.data.Dataset, parts: list[Selection]) -> Selection:
    nest, structure = seams.NEST.get(), seams.ZIPPED.of(dataset)

    def join(batches: tuple[LocalBatch, ...]) -> LocalBatch:
        return joined(batches, nest.pack_sequence_as(structure, [batch.data for batch in batches]))

    return Selection(
        map_elements(tf.data.Dataset.zip(tuple(part.dataset for part in parts)), join),
        "; ".join(dict.fromkeys(part.why for part in parts)),
        any(part.reads_all for part in parts),
        parts[0].size,
        any(part.reshuffles for part in parts),
        all(part.gathered for part in parts),
    )


def _rows(dataset: tf.data.Dataset) -> _Rows:
    """Translate the part of a pipeline below the outermost `batch`."""
    kind, below = kind_of(dataset), seams.INPUTS.of(dataset)()
    if kind == "TensorSlice" and dense(dataset):
        return _slices(dataset)
    if kind == "Range":
        return _Rows(dataset, lambda element: element)
    if kind in ("Prefetch", "Options"):
        return _rows(below[0])
    if kind in ("Take", "Skip"):
        rows = _rows(below[0])
        return rows._replace(addresses=PLAIN[kind](rows.addresses, dataset))
    if kind in ("Map", "ParallelMap"):
        if operation := impure_operation(seams.MAP_FUNCTION.of(dataset).function):
            return _leaf(dataset, f"a map that uses {operation}")
        rows, apply = _rows(below[0]), call_of(dataset)
        before = rows.finish or (lambda element: element)
        return rows._replace(finish=lambda element: apply(before(element)))
    if kind == "Cache":
        rows = _rows(below[0])
        if rows.reshuffles or rows.why or rows.cached or seams.CACHE_FILE.of(dataset).numpy():
            return _leaf(dataset)
        return rows._replace(cached=rows.finish is not None)
    if kind == "Zip":
        return _zipped_rows(dataset, [_settled(part) for part in below])
    if kind in ("Repeat", "Shard"):
        rows = _settled(below[0])
        return rows._replace(addresses=PLAIN[kind](rows.addresses, dataset))
    if kind == "Shuffle":
        rows = _settled(below[0])
        if rows.why and rows.finish is None:
            return _leaf(dataset, rows.why)
        return rows._replace(
            addresses=shuffled_alike(rows.addresses, dataset),
            reshuffles=rows.reshuffles or bool(seams.RESHUFFLES.of(dataset)),
        )
    if kind in ("Batch", "ParallelBatch"):
        rows = _settled(below[0])
        if rows.finish is None and not rows.why:
            size, drop = seams.BATCH_SIZE.of(dataset), bool(seams.DROP_REMAINDER.of(dataset))
            return rows._replace(addresses=rows.addresses.batch(size, drop_remainder=drop))
    return _leaf(dataset)


def _zipped_rows(dataset: tf.data.Dataset, parts: list[_Rows]) -> _Rows:
    nest, structure = seams.NEST.get(), seams.ZIPPED.of(dataset)

    def look_up(addresses: Tensors) -> Tensors:
        elements = [part.look_up(address) for part, address in zip(parts, addresses, strict=True)]
        return nest.pack_sequence_as(structure, elements)

    def finish(elements: Tensors) -> Tensors:
        flat = nest.flatten_up_to(structure, elements)
        done = [part.finish(e) if part.finish else e for part, e in zip(parts, flat, strict=True)]
        return nest.pack_sequence_as(structure, done)

    return _Rows(
        tf.data.Dataset.zip(tuple(part.addresses for part in parts)),
        look_up,
        # Functions of single elements are applied to all inputs of the zip or to none.
        finish if any(part.finish for part in parts) else None,
        ", ".join(dict.fromkeys(part.why for part in parts if part.why)),
        any(part.reshuffles for part in parts),
    )


def _settled(dataset: tf.data.Dataset) -> _Rows:
    """Translate, but leave a `cache` of prepared rows as it is: rows that a worker needs may change."""
    rows = _rows(dataset)
    return _leaf(dataset) if rows.cached else rows


def _leaf(dataset: tf.data.Dataset, why: str = "") -> _Rows:
    """Take the elements of a data set for their own addresses: they are computed by every worker."""
    return _Rows(dataset, lambda element: element, why=why or name_of(dataset), reshuffles=True)


def _slices(dataset: tf.data.Dataset) -> _Rows:
    nest, tensors, spec = seams.NEST.get(), seams.TENSORS.of(dataset), dataset.element_spec

    def look_up(row: Tensors) -> Tensors:
        return nest.pack_sequence_as(spec, [tf.gather(tensor, row) for tensor in tensors])

    return _Rows(tf.data.Dataset.range(tf.shape(tensors[0], out_type=tf.int64)[0]), look_up)
