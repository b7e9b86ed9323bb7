"""Let each worker read and prepare only its own rows of a ``tf.data`` pipeline.

TensorFlow's way, and the plain way here, is that each worker computes every global batch and keeps its part.
For many pipelines the rows of a batch can be told before they are read: `shuffle`, `repeat`, `take`, `skip`,
and `batch` look at no values. So the same pipeline runs over *addresses* (row numbers of arrays in memory, or
what a reader delivers, such as records), is cut into the same global batches, and the worker keeps the
addresses of its own rows. Only then rows are gathered, and the functions given to `map` run: once for each
row in the whole job.

The rows and their order are the same as without this module: shuffles share their seed generators
(:mod:`.pipelines`), and a function that draws random numbers or has state stays where it is
(:mod:`.pipelines`), together with everything below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import seams
from ..rows import LocalBatch, local_batch
from .pipelines import (
    PLAIN,
    StaysError,
    call_of,
    check_batchable,
    check_cache,
    check_shuffle,
    dense,
    impure_operation,
    is_tuple,
    keeps_rows_apart,
    kind_of,
    name_of,
    shuffled_alike,
)


class Selection(NamedTuple):
    """How a worker gets its rows.

    Attributes
    ----------
    dataset : tf.data.Dataset or None
        Data set of :class:`~.sharding.LocalBatch`; None if each worker has to compute all rows.
    why : str
        What each worker reads and prepares, or why it is everything; one line.
    reads_all : bool
        Whether each worker reads the files of all rows.
    """

    dataset: Any
    why: str
    reads_all: bool = True


class _Rows(NamedTuple):
    """A part of the pipeline below its outermost `batch`, as a data set of addresses.

    ``look_up`` makes an element from its address, and a batch of elements from a batch of addresses.
    ``finish`` are the functions of `map` on one element, None if there are none. ``why`` names the step at
    which the addresses begin, if they are not row numbers. ``reshuffles`` says that the order differs between
    passes, ``cached`` that a `cache` was above ``finish``.
    """

    addresses: Any
    look_up: Callable[[Any], Any]
    finish: Callable[[Any], Any] | None = None
    why: str = ""
    reshuffles: bool = False
    cached: bool = False


class _Parts(NamedTuple):
    """A part of the pipeline from its outermost `batch` on, as a data set of the worker's parts."""

    dataset: Any
    size: Any
    reshuffles: bool
    note: str
    gathered: bool
    reads_all: bool


def select_rows(dataset: Any, worker: int, workers: int) -> Selection:
    """Return this worker's parts of the global batches of a data set, computed from its own rows only."""
    # A later call of `fit` continues with the orders and the cached rows of this one.
    kept: dict[tuple[int, int], Selection] = dataset.__dict__.setdefault("_tfmuster_selection", {})
    if (worker, workers) not in kept:
        try:
            parts = _parts(dataset, worker, workers)
            found = Selection(parts.dataset.with_options(dataset.options()), parts.note, parts.reads_all)
        except StaysError as stays:
            found = Selection(None, str(stays))
        kept[worker, workers] = found
    return kept[worker, workers]


def _parts(dataset: Any, worker: int, workers: int, above: tuple[Any, ...] = ()) -> _Parts:
    """Translate a pipeline from its outermost `batch` on.

    ``above`` are a `rebatch` and the steps below it that set the borders of batches, from the lowest one up.
    They are moved down to the addresses, below the maps, which must not mix rows then.
    """
    kind, below = kind_of(dataset), seams.INPUTS.of(dataset)()
    if kind in ("Prefetch", "Options"):
        return _parts(below[0], worker, workers, above)
    if kind in ("Batch", "ParallelBatch"):
        return _of_batch(dataset, worker, workers, above)
    if kind in ("Map", "ParallelMap"):
        return _of_batch_map(dataset, worker, workers, above)
    if kind == "Rebatch" and seams.REBATCH_SIZES.of(dataset).shape.rank == 0 and dense(dataset):
        # TensorFlow puts a map between, which makes sparse tensors dense, and names the elements anew.
        (mapped,) = seams.INPUTS.of(below[0])()
        (batches,) = seams.INPUTS.of(mapped)()
        return _parts(batches, worker, workers, (dataset, *above))
    if above and kind == "Repeat":
        return _parts(below[0], worker, workers, (dataset, *above))
    if above:
        raise StaysError(f"a rebatch is above {name_of(dataset)}, so every worker computes all rows")
    if kind == "Zip":
        return _zipped_parts(dataset, [_parts(each, worker, workers) for each in below])
    if kind not in (*PLAIN, "Shuffle", "Cache"):
        raise StaysError(f"batches come from {name_of(dataset)}, so every worker computes all rows")
    parts = _parts(below[0], worker, workers)
    if kind in PLAIN:
        return parts._replace(dataset=PLAIN[kind](parts.dataset, dataset))
    if kind == "Shuffle":
        check_shuffle(dataset)
        again = bool(seams.RESHUFFLES.of(dataset))
        return parts._replace(
            dataset=shuffled_alike(parts.dataset, dataset), reshuffles=parts.reshuffles or again
        )
    check_cache(dataset, parts.reshuffles)
    return parts._replace(dataset=parts.dataset.cache())


def _of_batch(dataset: Any, worker: int, workers: int, above: tuple[Any, ...]) -> _Parts:
    """Return the worker's parts of the batches made by the outermost `batch`, and steps ``above`` it."""
    rows = _rows(seams.INPUTS.of(dataset)()[0])
    if rows.why and rows.finish is None:
        raise StaysError(f"rows come in order from {rows.why}, so every worker reads all of them")
    check_batchable(rows.addresses, rows.why)
    batched, size = rows.addresses, seams.BATCH_SIZE.of(dataset)
    for step in (dataset, *above):
        if kind_of(step) == "Repeat":
            batched = PLAIN["Repeat"](batched, step)
        elif kind_of(step) == "Rebatch":
            size = seams.REBATCH_SIZES.of(step)
            batched = batched.rebatch(size, drop_remainder=bool(seams.DROP_REMAINDER.of(step)))
        else:
            batched = batched.batch(size, drop_remainder=bool(seams.DROP_REMAINDER.of(step)))
    if rows.finish is None:
        parts = _mapped(batched, lambda own: own._replace(data=rows.look_up(own.data)), worker, workers)
    else:
        parts = _mapped(batched, lambda own: own, worker, workers)
        parts = _finished(parts, rows.look_up, rows.finish)
    if rows.cached:
        if any(kind_of(step) == "Repeat" for step in above):
            raise StaysError("a cache is below repeat and rebatch, so every worker computes all rows")
        parts = parts.cache()
    what = "prepares its own rows" if rows.why else "reads and prepares its own rows"
    note = f"each worker {what} only" + (f"; {rows.why} is read by every worker" if rows.why else "")
    return _Parts(parts, int(size), rows.reshuffles, note, rows.finish is None, bool(rows.why))


def _mapped(batched: Any, then: Callable[[LocalBatch], LocalBatch], worker: int, workers: int) -> Any:
    import tensorflow as tf

    def part(*batch: Any) -> LocalBatch:
        return then(local_batch(batch if is_tuple(batched) else batch[0], worker, workers))

    return batched.map(tf.autograph.experimental.do_not_convert(part))


def _finished(parts: Any, look_up: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Any:
    """Apply functions of single rows to the addresses of the worker's rows, several rows at a time."""
    import tensorflow as tf

    def one(*address: Any) -> Any:
        return finish(look_up(address if type(spec) is tuple else address[0]))

    spec = parts.element_spec.data

    @tf.autograph.experimental.do_not_convert
    def prepared(part: LocalBatch) -> Any:
        count = tf.shape(tf.nest.flatten(part.data)[0], out_type=tf.int64)[0]
        single = tf.data.Dataset.from_tensor_slices(part.data)
        single = single.map(
            tf.autograph.experimental.do_not_convert(one), num_parallel_calls=tf.data.AUTOTUNE
        )
        whole = single.batch(count)
        return whole.map(
            tf.autograph.experimental.do_not_convert(
                lambda *batch: part._replace(data=batch if is_tuple(whole) else batch[0])
            )
        )

    # The next batch begins while the last rows of this one are prepared.
    return parts.interleave(
        prepared, cycle_length=2, block_length=1, num_parallel_calls=2, deterministic=True
    )


def _of_batch_map(dataset: Any, worker: int, workers: int, above: tuple[Any, ...]) -> _Parts:
    """Return the worker's parts if a `map` is above the outermost `batch`."""
    import tensorflow as tf

    function, apply = seams.MAP_FUNCTION.of(dataset).function, call_of(dataset)
    if operation := impure_operation(function):
        raise StaysError(f"a map after batch uses {operation}, so every worker computes all rows")
    if keeps_rows_apart(function):
        parts = _parts(seams.INPUTS.of(dataset)()[0], worker, workers, above)
        made = parts.dataset.map(
            tf.autograph.experimental.do_not_convert(lambda part: part._replace(data=apply(part.data))),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return parts._replace(dataset=made)
    if above:
        raise StaysError("a map below rebatch may mix rows, so every worker computes all rows")
    parts = _parts(seams.INPUTS.of(dataset)()[0], 0, 1)
    if not parts.gathered:
        raise StaysError("a map after batch may mix rows, so every worker computes all rows")
    made = parts.dataset.map(
        tf.autograph.experimental.do_not_convert(lambda part: local_batch(apply(part.data), worker, workers)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    note = "a map after batch may mix rows, so every worker gathers and maps whole batches"
    return parts._replace(dataset=made, note=note)


def _zipped_parts(dataset: Any, parts: list[_Parts]) -> _Parts:
    import tensorflow as tf

    nest = seams.NEST.get()

    if len({each.size for each in parts}) != 1:
        raise StaysError("zip joins batches of different sizes, so every worker computes all rows")
    structure = seams.ZIPPED.of(dataset)

    def join(*each: Any) -> LocalBatch:
        data = nest.pack_sequence_as(structure, [part.data for part in each])
        return LocalBatch(data, each[0].rows, each[0].global_rows)

    made = tf.data.Dataset.zip(tuple(each.dataset for each in parts)).map(
        tf.autograph.experimental.do_not_convert(join)
    )
    return _Parts(
        made,
        parts[0].size,
        any(each.reshuffles for each in parts),
        "; ".join(dict.fromkeys(each.note for each in parts)),
        all(each.gathered for each in parts),
        any(each.reads_all for each in parts),
    )


def _rows(dataset: Any) -> _Rows:
    """Translate the part of a pipeline below the outermost `batch`."""
    import tensorflow as tf

    nest = seams.NEST.get()

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
        each = [_settled(one) for one in below]
        structure = seams.ZIPPED.of(dataset)
        # Functions of single elements are applied to all inputs of the zip or to none.
        finishes = [one.finish for one in each] if any(one.finish for one in each) else None

        def finish(elements: Any) -> Any:
            flat = nest.flatten_up_to(structure, elements)
            done = [f(e) if f else e for f, e in zip(finishes or (), flat, strict=True)]
            return nest.pack_sequence_as(structure, done)

        return _Rows(
            tf.data.Dataset.zip(tuple(one.addresses for one in each)),
            lambda addresses: nest.pack_sequence_as(
                structure, [one.look_up(address) for one, address in zip(each, addresses, strict=True)]
            ),
            finish if finishes else None,
            ", ".join(dict.fromkeys(one.why for one in each if one.why)),
            any(one.reshuffles for one in each),
        )
    if kind in ("Repeat", "Shard"):
        rows = _settled(below[0])
        return rows._replace(addresses=PLAIN[kind](rows.addresses, dataset))
    if kind == "Shuffle":
        rows = _settled(below[0])
        if rows.why and rows.finish is None:
            return _leaf(dataset, rows.why)
        check_shuffle(dataset)
        again = bool(seams.RESHUFFLES.of(dataset))
        return rows._replace(
            addresses=shuffled_alike(rows.addresses, dataset), reshuffles=rows.reshuffles or again
        )
    if kind in ("Batch", "ParallelBatch"):
        rows = _settled(below[0])
        if rows.finish is None and not rows.why:
            size, drop = seams.BATCH_SIZE.of(dataset), bool(seams.DROP_REMAINDER.of(dataset))
            return rows._replace(addresses=rows.addresses.batch(size, drop_remainder=drop))
    return _leaf(dataset)


def _settled(dataset: Any) -> _Rows:
    """Translate, but leave a `cache` of prepared rows as it is: rows that a worker needs may change."""
    rows = _rows(dataset)
    return _leaf(dataset) if rows.cached else rows


def _leaf(dataset: Any, why: str = "") -> _Rows:
    """Take the elements of a data set for their own addresses: they are computed by every worker."""
    return _Rows(dataset, lambda element: element, why=why or name_of(dataset), reshuffles=True)


def _slices(dataset: Any) -> _Rows:
    import tensorflow as tf

    nest = seams.NEST.get()

    tensors, spec = seams.TENSORS.of(dataset), dataset.element_spec

    def look_up(row: Any) -> Any:
        return nest.pack_sequence_as(spec, [tf.gather(tensor, row) for tensor in tensors])

    return _Rows(tf.data.Dataset.range(tf.shape(tensors[0], out_type=tf.int64)[0]), look_up)
