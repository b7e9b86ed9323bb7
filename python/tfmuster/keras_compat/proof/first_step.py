"""Prove the first step of a model: compute it as one process would, too, and compare.

What a loss or a layer means can't be read off its graph for certain. So after the first step of ``fit`` or
``evaluate``, the first worker runs the program's step once more on the rows of all workers, traced anew, with
everything off that several workers change (`as_one_process`), from the same weights and with the same random
numbers; then it puts back what that has changed. Compared are what the step returns, the gradients as
the optimizers get them, the states of metrics, and what the step changes without an optimizer.

What differs ends the job, and all workers get back the values from before the step.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import tensorflow as tf

from ...errors import StrategyError
from ...system.activity import ACTIVITY
from ...system.limits import free_memory, used_memory
from .. import seams
from ..agreement.documents import Call
from ..choices import GRADIENT_DTYPE, VERIFY
from ..losses.loss_parts import called_losses, has_own_step
from ..process import tell, worker_of
from ..rows import LocalBatch, absent_to_none
from ..sums.collectives import sum_of_workers
from ..sums.gradients import sums_at_tape
from ..sums.recording import GradientRecord
from .alone import StepAlone, generators
from .differences import (
    TOLERANCES,
    Step,
    above_rounding,
    change,
    differences,
    in_words,
    largest,
    numbers_of,
)
from .own_parts import own_parts
from .traced import (
    DRAWS_FROM_STATE,
    Variables,
    added_up,
    has_other_state,
    local,
    operations_of,
    optimized_by,
    optimizers_of,
)
from .verdict import Verdict, give_whole_batch
from .whole_batch import whole_batch

if TYPE_CHECKING:
    import keras

    from ..rows import Tensors
    from .differences import Array

#: A step of all rows may take this many seconds.
_MOST_SECONDS: Final = 30.0
_TOO_LARGE: Final = "that would need more than the free memory"
#: The last bit of types that NumPy lacks, or that a layer computes with although its weights are float32; and
#: by how many times a last bit weights are changed to see what is rounding.
_ROUNDING: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
_LAST_BITS: Final = 4.0


class Proof:
    """The proof of a model's step, which is due with its first batch."""

    def __init__(self, model: keras.Model, step: Callable[[Tensors], Tensors]) -> None:
        self._model, self._step, self._how = model, step, VERIFY.checked()
        self._strategy = model.distribute_strategy
        wanted = self._how == "always" or (self._how == "auto" and bool(own_parts(model)))
        #: Whether the next step is to be proven.
        self.due = wanted
        #: Whether the last batch of the first epoch is to be looked at, which may have fewer rows.
        self.looks_again = False
        #: Whether gradients are summed where a tape computes them, and not by the optimizer.
        self._at_tape = False
        self._rows = 0
        #: The gradients of the workers' step, and of that of one process.
        self._record, self._record_alone = GradientRecord(), GradientRecord()
        self._alone = StepAlone(model, step, self._record_alone)
        self._variables = Variables()
        self._before: dict[int, tf.Tensor] = {}
        self._metrics_before: list[Array] = []
        self._generators = generators()
        self._seconds = self._bytes = 0.0
        if model.run_eagerly:
            self.leave_out("it has no graph")

    def look_again(self) -> None:
        """Prove the next step, too, if its batch has another number of rows than the first one."""
        self.due, self.looks_again = self.due or self.looks_again, False

    def begins(self) -> bool:
        """Return whether the step that begins is to be proven, and can be."""
        if self.due and self._too_large():
            self.leave_out(_TOO_LARGE)
        return self.due

    @contextlib.contextmanager
    def recording(self, wanted: tf.Tensor) -> Iterator[None]:
        """Inside the block, a step is traced so that it records gradients if ``wanted``, a bool, is true."""
        with contextlib.ExitStack() as contexts:
            contexts.enter_context(sums_at_tape(self._at_tape))
            if self.due or self.looks_again:
                contexts.enter_context(self._record.tracing(wanted))
            yield

    def run(self, execute: Any, *arguments: object) -> Any:
        """Run a traced function of the first step; keep what has to be known from before it."""
        if not self.due:
            return execute(*arguments)
        self._generators = generators()
        self._variables.add(execute.get_concrete_function(*arguments).graph.variables)
        # A graph does not name those that it sets without reading them.
        self._variables.add(local([*self._model.variables, *added_up(self._model)], self._strategy))
        self._before = self._variables.values()
        self._metrics_before = self._metrics()
        self._record.clear()
        begin, before = time.perf_counter(), used_memory()
        result = execute(*arguments)
        self._seconds, self._bytes = time.perf_counter() - begin, used_memory() - before
        return result

    def prove(self, part: LocalBatch, spec: Tensors, outputs: Tensors, *, own_rows: bool = False) -> bool:
        """Compare a step that has run with that of one process; return False if it has to be made anew.

        Then losses of the program, which turned out to look at several rows at once, are from now on computed
        with those of all workers, and all values are those from before the step.

        ``part`` is this worker's batch, ``spec`` the type of its data, ``outputs`` what the step returned.
        With ``own_rows``, the batch has no order. All workers must call it. Raises a StrategyError (reason
        ``first-step``).
        """
        rows, first = int(part.global_rows), not self._rows
        self.due = False
        stands = rows == self._rows or self._proven(part, spec, outputs, first=first, own_rows=own_rows)
        # They are as large as the model.
        self._before.clear()
        if stands:
            self._rows, self.looks_again = self._rows or rows, first
        else:
            self.due = True
        if not (stands and self.looks_again):
            # What it holds may be as large as the model, too; and a step that is made anew is another one.
            self._alone.forget()
        return stands

    def _proven(
        self, part: LocalBatch, spec: Tensors, outputs: Tensors, *, first: bool, own_rows: bool
    ) -> bool:
        with ACTIVITY.call("the proof of the first step"):
            without = self._obstacle()
            verdict = Verdict(without) if without else self._verdict(part, spec, outputs)
        if verdict.text and not verdict.only_states and self._tries_again():
            self._variables.assign(self._before)
            return False
        call = Call.of(self._model)
        step = "the first step" if first else "the step of a smaller batch"
        step += f" of {'train_on_batch' if call is None else call.name}"
        try:
            verdict.note(step, self._model, own_rows=own_rows, strict=self._how == "always")
        except StrategyError:
            self._variables.assign(self._before)
            raise
        if self._at_tape and first:
            tell("loss", "gradients are summed over the workers where the model's own step computes them")
        return True

    def _tries_again(self) -> bool:
        """Return whether the step can be made in another way, which looks at all rows."""
        if give_whole_batch(called_losses()):
            return True
        if self._at_tape or not has_own_step(self._model):
            return False
        # Its own code may change the gradients, or the weights by them, before an optimizer gets them.
        self._at_tape = True
        return True

    def leave_out(self, why: str) -> None:
        """Do not compare, and say why."""
        if self.due:
            self.due = False
            tell("proof", f"the first step was not compared with that of one process: {why}")

    def _obstacle(self) -> str | None:
        """Return what keeps this step from being computed as one process would: the same on all workers."""
        workers = worker_of(self._strategy)[1]
        is_slow = self._how == "auto" and self._seconds * workers > _MOST_SECONDS
        limits = [is_slow, self._bytes * workers > free_memory()]
        slow, large = sum_of_workers(self._strategy, np.array(limits, np.int32)).numpy()
        if slow:
            return f"that would take longer than {_MOST_SECONDS:.0f} s"
        return _TOO_LARGE if large else None

    def _too_large(self) -> bool:
        """Return whether a worker has no room for the values before the step, and twice its gradients."""
        weights = self._model.variables
        states = [one for optimizer in optimizers_of(self._model) for one in optimizer.variables]
        needed = _bytes_of([*weights, *states]) + 2 * _bytes_of(self._model.trainable_variables)
        large = np.array([needed > free_memory()], np.int32)
        return bool(sum_of_workers(self._strategy, large).numpy()[0])

    def _verdict(self, part: LocalBatch, spec: Tensors, outputs: Tensors) -> Verdict:
        metrics = self._metrics()
        try:
            batch, types = whole_batch(part, spec, self._strategy)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            return Verdict(f"the workers can't give each other its batch ({type(error).__name__})")
        try:
            # A trace on the first worker alone would draw numbers that the others do not.
            alone, verdict = self._alone.traced(absent_to_none(types), self._generators), Verdict()
            self._variables.add(alone.graph.variables)
        except Exception as error:
            alone, verdict = None, _of_failure(error)
        if alone is not None and worker_of(self._strategy)[0] == 0:
            if has_other_state(alone, self._variables):
                verdict = Verdict("it has state that is not in variables")
            else:
                verdict = self._compared(alone, absent_to_none(batch), outputs, metrics)
        return verdict.of_first(self._strategy)

    def _compared(self, alone: Any, batch: Tensors, outputs: Tensors, metrics: list[Array]) -> Verdict:
        """Run the step of one process, compare, and put back what it has changed."""
        after, tolerance = self._variables.values(), TOLERANCES[self._arithmetic()]
        # The step of the workers does not change what only that of one process has.
        self._before = after | self._before
        several = self._step_of(outputs, self._record, metrics, after)
        operations: set[str] = set()
        try:
            one = self._run_alone(alone, batch, self._before)
            found = differences(several, one, tolerance)
            if found:
                operations = operations_of(alone)
            if found and operations.isdisjoint(DRAWS_FROM_STATE):
                rounded = self._run_alone(alone, batch, self._with_other_last_bits())
                found = above_rounding(found, rounded, one, tolerance)
        except tf.errors.OpError as error:
            return _of_failure(error)
        finally:
            self._variables.assign(after)
        return Verdict(
            text=in_words(found, several, one),
            gradients=len(one.gradient),
            numbers=len(one.log) + len(one.metric) + len(one.state),
            largest=largest(several, one, tolerance),
            draws_from_state=not operations.isdisjoint(DRAWS_FROM_STATE),
            draws_for_rows=any(kind.startswith("StatelessRandom") for kind in operations),
            only_states=all(difference.kind == "state" for difference in found),
        )

    def _run_alone(self, alone: Any, batch: Tensors, values: Mapping[int, tf.Tensor]) -> Step:
        """Run the step of one process from some values of the variables, and return what it has computed."""
        self._variables.assign(values)
        for variable, value in zip(self._metric_variables(), self._metrics_before, strict=True):
            variable.assign(tf.cast(value, variable.dtype), read_value=False)
        returned = alone(batch)
        metrics = [tf.cast(one.read_value(), tf.float64).numpy() for one in self._metric_variables()]
        return self._step_of(returned, self._record_alone, metrics, self._variables.values())

    def _step_of(
        self,
        returned: Tensors,
        record: GradientRecord,
        metrics: Sequence[Array],
        values: Mapping[int, tf.Tensor],
    ) -> Step:
        """Return what a step has computed, as numbers with names."""
        optimized = local(optimized_by(optimizers_of(self._model)), self._strategy)
        others = {id(v.handle) for v in (*optimized, *self._metric_variables())}
        changes = {
            variable.name.partition(":")[0]: change(self._before[key].numpy(), values[key].numpy())
            for key, variable in self._variables.known.items()
            if key not in others
        }
        names = [variable.path for variable in added_up(self._model)]
        accumulated = dict(zip(names, metrics, strict=True))
        return Step(numbers_of(returned), record.gradients(), accumulated, changes)

    def _with_other_last_bits(self) -> dict[int, tf.Tensor]:
        """Return the values from before the step, with other last bits in the weights that are trained."""
        generator, values = np.random.default_rng(0), dict(self._before)
        for variable in local(self._model.trainable_variables, self._strategy):
            value = values.get(id(variable.handle))
            if value is not None and value.dtype in (tf.float32, tf.float64):
                bit = _ROUNDING.get(self._arithmetic(), np.finfo(value.dtype.as_numpy_dtype).eps)
                factors = 1 + _LAST_BITS * bit * generator.uniform(-1, 1, value.shape)
                values[id(variable.handle)] = tf.constant(value.numpy() * factors, value.dtype)
        return values

    def _metric_variables(self) -> list[tf.Variable]:
        return local(added_up(self._model), self._strategy)

    def _metrics(self) -> list[Array]:
        """Return what metrics have, added up over the workers. All workers must call it."""
        own = [tf.cast(variable.read_value(), tf.float64) for variable in self._metric_variables()]
        packed = tf.concat([tf.zeros(1, tf.float64), *(tf.reshape(value, [-1]) for value in own)], axis=0)
        (_, *sums) = tf.split(sum_of_workers(self._strategy, packed), [1, *map(tf.size, own)])
        return [tf.reshape(total, value.shape).numpy() for total, value in zip(sums, own, strict=True)]

    def _arithmetic(self) -> str:
        """Return the least exact way in which a step computes, of those in ``TOLERANCES``."""
        layers = seams.FLATTEN_LAYERS.of(self._model)()
        ways = {str(layer.compute_dtype) for layer in layers} | {type(layer).__name__ for layer in layers}
        ways |= {GRADIENT_DTYPE.of(self._strategy), *(["XLA"] if self._model.jit_compile else [])}
        return max(ways & TOLERANCES.keys(), key=lambda way: TOLERANCES[way])


def _of_failure(error: Exception) -> Verdict:
    """Return the verdict on a step that one process can't make."""
    return Verdict(f"one process fails ({f'{type(error).__name__}: {error}'.splitlines()[0]})")


def _bytes_of(variables: Sequence[keras.Variable | tf.Variable]) -> int:
    return sum(math.prod(one.shape) * tf.as_dtype(one.dtype).size for one in variables)
