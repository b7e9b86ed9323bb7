"""Let the processes of a job on JAX compare what they do together, take their rows, and read what is divided.

Keras compares nothing. Processes whose steps differ wait for each other forever, and those whose weights
differ in shape are aborted by JAX's collective operations, without a word about the weight.

Keras divides a ``tf.data`` set by making smaller batches, of which each process takes every n-th. If the last
batch of an epoch is partial, the processes get unequal numbers of batches, and the others wait for one that
has finished. Here each process takes its rows of each batch, so that all have the same number of steps, and
the rows of a step are those of one process.

JAX refuses to read an array that is divided among processes. So Keras can neither save a model that a
``ModelParallel`` divides, nor return predictions under ``DataParallel``. Here all processes gather such an
array. Each of them must read it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..system.activity import ACTIVITY
from ..system.register import Seam
from ..words import Code, Words
from . import seams
from .agreement.comparison import agree_on_call, agree_on_end, agree_on_weight
from .agreement.documents import Call
from .data.data_errors import check_classes, classes_of
from .data.order import in_order, refuse_servers
from .data.pipelines import compared_of
from .data.unreadable_rows import cause_in
from .process import jax_process_index, spans_all_processes
from .row_sums import sums_of_arrays
from .steps.callbacks import patch_stops
from .steps.epochs import place_in_epoch

if TYPE_CHECKING:
    import jax
    import keras
    import numpy.typing as npt


def trains_together(model: keras.Model | None = None) -> bool:
    """Return whether this process computes with the others: whether its distribution has devices of all."""
    distribution = seams.KERAS_GLOBAL.get()("distribution")
    return jax_process_index() is not None and distribution is not None and spans_all_processes(distribution)


def _check_labels(batch: object) -> None:
    """Raise DataError for a label that no output of the model stands for. JAX counts it as no class."""
    call = Call.current[-1] if Call.current else None
    if call is None or call.name == "predict" or not isinstance(batch, tuple) or len(batch) < 2:
        return
    if (classes := classes_of(call.model)) is not None:
        check_classes(batch[1], classes, has_row=False)


def patch_agreement() -> None:
    """Let the imported Keras compare the data and weights of its calls with those of the other processes."""
    stock_init, stock_steps, stock_batches = (
        seam.get() for seam in (seams.JAX_EPOCHS_INIT, seams.JAX_STEPS, seams.JAX_BATCHES)
    )
    stock_catch, stock_variable = seams.JAX_CATCH_STOP.get(), seams.JAX_INITIALIZE.get()

    @seams.JAX_EPOCHS_INIT.wrap
    def init(self: Any, *args: object, **kwargs: object) -> None:
        stock_init(self, *args, **kwargs)
        Call.reads(self)

    @seams.JAX_STEPS.wrap
    def steps(self: Any) -> Iterator[Any]:
        place = place_in_epoch(self)
        for step in stock_steps(self):
            place["step"] = int(step[0]) + 1
            yield step

    @seams.JAX_BATCHES.wrap
    def batches(self: Any) -> Iterator[Any]:
        dataset = seams.ADAPTED_DATASET.of(self.data_adapter, None)
        try:
            for batch in stock_batches(self):
                if trains_together():
                    # A process that has a batch enters a step, for which it needs the others.
                    ACTIVITY.executions += 1
                    ACTIVITY.changed()
                yield batch
        except Exception as error:
            cause = cause_in(dataset, error) if dataset is not None and trains_together() else None
            if cause is None:
                raise
            raise cause from error

    @seams.JAX_CATCH_STOP.wrap
    @contextlib.contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        with stock_catch(self):
            try:
                yield
            except StopIteration:
                if Call.current:
                    agree_on_end(Call.current[-1].model)
                raise

    @seams.JAX_INITIALIZE.wrap
    def initialize(self: Any, value: jax.Array) -> None:
        # JAX compares the values of a new weight on all processes, which must have the same shape.
        if trains_together():
            agree_on_weight(self.path, value)
        stock_variable(self, value)

    def compare_before(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def make(self: Any, force: bool = False) -> Any:
            if (call := Call.of(self)) is not None:
                # A validation within ``fit`` has the epoch iterator of its own.
                agree_on_call(self, call.epochs or seams.JAX_EVALUATION.of(self, None))
            return stock(self, force)

    for seam in seams.JAX_MAKE:
        compare_before(seam)
    patch_stops(trains_together)


def patch_data_sets() -> None:
    """Let ``fit``, ``evaluate`` and ``predict`` of the imported Keras divide data sets by rows."""
    map_structure, flatten = seams.TREE.get().map_structure, seams.TREE.get().flatten
    stock_init, stock_iterator = seams.DATASET_INIT.get(), seams.DATASET_BATCHES.get()

    @seams.DATASET_INIT.wrap
    def init(self: Any, dataset: Any, class_weight: object = None, distribution: Any = None) -> None:
        # Without auto_shard_dataset, the program has given each process rows of its own. Keras 3.10 has both
        # attributes only in some of its classes.
        several = seams.SEVERAL_PROCESSES.of(distribution, False)
        divided = several and seams.AUTO_SHARD.of(distribution, True)
        if divided:
            refuse_servers(dataset)
            dataset = in_order(dataset)
        stock_init(self, dataset, class_weight=class_weight, distribution=None if divided else distribution)
        self._tfmuster_part = _part_of_this_process(distribution) if divided else None
        self._tfmuster_compared = compared_of(dataset) if divided else None

    @seams.DATASET_BATCHES.wrap
    def iterate(self: Any) -> Iterator[Any]:
        for batch in stock_iterator(self):
            if (part := self._tfmuster_part) is not None:
                if Call.current:
                    Call.current[-1].has_read(sums_of_arrays(flatten(self._tfmuster_compared(batch))))
                batch = map_structure(functools.partial(_own_rows, part), batch)  # noqa: PLW2901
            # Later a batch is an array of which each process sees its rows only.
            if trains_together():
                _check_labels(batch)
            yield batch


def _part_of_this_process(distribution: keras.distribution.Distribution) -> tuple[tuple[int, ...], int]:
    """Return the parts of each batch that this process needs, and how many parts there are.

    A batch has a part for each model replica: each place on the mesh axis along which a
    ``keras.distribution`` divides batches. All processes of a replica need its part.
    """
    import jax

    mesh = distribution.device_mesh
    axis = list(mesh.axis_names).index(distribution.batch_dim_name)
    places = np.moveaxis(mesh.backend_mesh.devices, axis, 0)
    here = jax.process_index()
    own = [at for at, devices in enumerate(places) if any(d.process_index == here for d in np.ravel(devices))]
    return tuple(own), len(places)


def _own_rows(part: tuple[tuple[int, ...], int], batch: npt.NDArray[np.generic] | None) -> Any:
    """Return the rows of a global batch that belong to some of its parts; None for None."""
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

    @seams.ARRAY_OF_VARIABLE.wrap
    def array(self: Any, dtype: npt.DTypeLike = None) -> Any:
        value = self.value
        return np.asarray(_whole(value), dtype) if _is_divided(value) else stock_array(self, dtype)

    @make_predict.wrap
    def make(self: Any, force: bool = False) -> Any:
        if self.predict_function is None or force:
            stock_make(self, force)
            step = self.predict_function

            def gathered(*args: object) -> Any:
                outputs, state = step(*args)
                return map_structure(_whole, outputs), state

            self.predict_function = gathered
        return self.predict_function


def _is_divided(value: object) -> bool:
    """Return whether no process has all of an array."""
    import jax

    return isinstance(value, jax.Array) and not (value.is_fully_addressable or value.is_fully_replicated)


def _whole(value: object) -> Any:
    """Return a value, or if it is divided, its copy in NumPy. All processes must call it."""
    if not _is_divided(value):
        return value
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(value, tiled=True)
