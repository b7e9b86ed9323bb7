"""Compare what the processes of a job on JAX are about to do together, before they do it.

Keras compares nothing. Processes whose steps differ wait for each other forever, and those whose weights
differ in shape are aborted by JAX's collective operations, without a word about the weight.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...system.activity import ACTIVITY
from .. import seams
from ..agreement.calls import Call
from ..agreement.comparison import agree_on_call, agree_on_end, agree_on_weight
from ..data.data_errors import check_classes, classes_of
from ..data.unreadable_rows import cause_in
from ..jax_processes import jax_process_index, spans_all_processes
from ..steps.callbacks import patch_stops
from ..steps.epochs import place_in_epoch


def trains_together(model: Any = None) -> bool:
    """Return whether this process computes with the others: whether its distribution has devices of all."""
    distribution = seams.KERAS_GLOBAL.get()("distribution")
    return jax_process_index() is not None and distribution is not None and spans_all_processes(distribution)


def _check_labels(batch: Any) -> None:
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
    stock_arrays = seams.DATASET_BATCHES.get()

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, *args, **kwargs)
        Call.reads(self)

    @functools.wraps(stock_steps)
    def steps(self: Any) -> Iterator[Any]:
        place = place_in_epoch(self)
        for step in stock_steps(self):
            place["step"] = int(step[0]) + 1
            yield step

    @functools.wraps(stock_batches)
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

    @functools.wraps(stock_arrays)
    def arrays(self: Any) -> Iterator[Any]:
        # Later a batch is an array of which each process sees its rows only.
        for batch in stock_arrays(self):
            if trains_together():
                _check_labels(batch)
            yield batch

    @functools.wraps(stock_catch)
    @contextlib.contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        with stock_catch(self):
            try:
                yield
            except StopIteration:
                if Call.current:
                    agree_on_end(Call.current[-1].model)
                raise

    @functools.wraps(stock_variable)
    def initialize(self: Any, value: Any) -> None:
        # JAX compares the values of a new weight on all processes, which must have the same shape.
        if trains_together():
            agree_on_weight(self.path, value)
        stock_variable(self, value)

    def compared(stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def make(self: Any, force: bool = False) -> Any:
            if (call := Call.of(self)) is not None:
                # A validation within ``fit`` has the epoch iterator of its own.
                agree_on_call(self, call.epochs or seams.JAX_EVALUATION.of(self, None))
            return stock(self, force)

        return make

    for seam, new in (
        (seams.JAX_EPOCHS_INIT, init),
        (seams.JAX_STEPS, steps),
        (seams.JAX_BATCHES, batches),
        (seams.JAX_CATCH_STOP, catch_stop_iteration),
        (seams.DATASET_BATCHES, arrays),
        (seams.JAX_INITIALIZE, initialize),
    ):
        seam.replace(new)
    for seam in seams.JAX_MAKE:
        seam.replace(compared(seam.get()))
    patch_stops(trains_together)
