"""Give each process of a job on JAX its rows of every global batch, and let it read what is divided.

Keras divides a ``tf.data`` set by making smaller batches, of which each process takes every n-th. If the last
batch of an epoch is partial, the processes get unequal numbers of batches, and the others wait for one that
has finished. Here each process takes its rows of each batch, so that all have the same number of steps, and
the rows of a step are those of one process.

JAX refuses to read an array that is divided among processes. So Keras can neither save a model that a
``ModelParallel`` divides, nor return predictions under ``DataParallel``. Here all processes gather such an
array. Each of them must read it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...errors import DataError
from ...words import Code, Words
from .. import seams


def patch_data_sets() -> None:
    """Let ``fit``, ``evaluate`` and ``predict`` of the imported Keras divide data sets by rows."""
    map_structure = seams.TREE.get().map_structure
    stock_init, stock_iterator = seams.DATASET_INIT.get(), seams.DATASET_BATCHES.get()

    @functools.wraps(stock_init)
    def init(self: Any, dataset: Any, class_weight: Any = None, distribution: Any = None) -> None:
        # Without auto_shard_dataset, the program has given each process rows of its own. Keras 3.10 has both
        # attributes only in some of its classes.
        several = seams.SEVERAL_PROCESSES.of(distribution, False)
        divided = several and seams.AUTO_SHARD.of(distribution, True)
        stock_init(self, dataset, class_weight=class_weight, distribution=None if divided else distribution)
        self._tfmuster_part = part_of_this_process(distribution) if divided else None

    @functools.wraps(stock_iterator)
    def iterate(self: Any) -> Iterable[Any]:
        batches: Iterable[Any] = stock_iterator(self)
        if (part := self._tfmuster_part) is None:
            return batches
        own = functools.partial(own_rows_of, part)
        return (map_structure(own, batch) for batch in batches)

    seams.DATASET_INIT.replace(init)
    seams.DATASET_BATCHES.replace(iterate)


def is_divided_by_rows(adapter: Any) -> bool:
    """Return whether each process takes its rows of the batches of a Keras data adapter."""
    return getattr(adapter, "_tfmuster_part", None) is not None


def part_of_this_process(distribution: Any) -> tuple[tuple[int, ...], int]:
    """Return the parts of each batch that this process needs, and how many parts there are.

    A batch has a part for each model replica: for each place on the axis of the mesh along which a
    ``keras.distribution`` divides batches. With a replica on several processes, all of them need its part.
    """
    import jax

    mesh = distribution.device_mesh
    axis = list(mesh.axis_names).index(distribution.batch_dim_name)
    places = np.moveaxis(mesh.backend_mesh.devices, axis, 0)
    here = jax.process_index()
    own = [at for at, devices in enumerate(places) if any(d.process_index == here for d in np.ravel(devices))]
    return tuple(own), len(places)


def own_rows_of(part: tuple[tuple[int, ...], int], batch: Any) -> Any:
    """Return the rows of a global batch that belong to some of its parts; None for None.

    Raises
    ------
    DataError
        The parts don't divide the rows (reason ``batch-size``).
    """
    if batch is None:
        return None
    own, parts = part
    rows = batch.shape[0]
    if rows % parts:
        raise DataError(
            f"On JAX, the {parts} replicas of the model must divide the rows of every batch.",
            found=f"a batch of {rows} rows",
            fix=Words(
                "choose a batch size that {} divides, and leave a partial last batch out: {}",
                parts,
                Code(
                    "dataset.batch(rows, drop_remainder=True)", "dataset$batch(rows, drop_remainder = TRUE)"
                ),
            ),
            path=None,
            reason="batch-size",
        )
    size = rows // parts
    if own == tuple(range(own[0], own[-1] + 1)):
        return batch[own[0] * size : (own[-1] + 1) * size]
    return np.concatenate([batch[at * size : (at + 1) * size] for at in own])


def patch_values() -> None:
    """Let the imported Keras read weights and predictions that are divided among processes."""
    map_structure = seams.TREE.get().map_structure
    make_predict = seams.JAX_MAKE[-1]
    stock_array, stock_make = seams.ARRAY_OF_VARIABLE.get(), make_predict.get()

    @functools.wraps(stock_array)
    def array(self: Any, dtype: Any = None) -> Any:
        value = self.value
        return np.asarray(whole(value), dtype) if is_divided(value) else stock_array(self, dtype)

    @functools.wraps(stock_make)
    def make(self: Any, force: bool = False) -> Any:
        if self.predict_function is None or force:
            stock_make(self, force)
            step = self.predict_function

            def gathered(*args: Any) -> Any:
                outputs, state = step(*args)
                return map_structure(whole, outputs), state

            self.predict_function = gathered
        return self.predict_function

    seams.ARRAY_OF_VARIABLE.replace(array)
    make_predict.replace(make)


def is_divided(value: Any) -> bool:
    """Return whether no process has all of an array."""
    import jax

    return isinstance(value, jax.Array) and not (value.is_fully_addressable or value.is_fully_replicated)


def whole(value: Any) -> Any:
    """Return a value, or if it is divided, its copy in NumPy. All processes must call it."""
    if not is_divided(value):
        return value
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(value, tiled=True)
