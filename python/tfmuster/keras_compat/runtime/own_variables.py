"""Refuse a loop that trains variables with the gradients of one worker alone.

A loop with a ``GradientTape`` that assigns to its variables calls nothing of Keras, so no guard of
:mod:`.alone` sees it. Here the gradients of a tape are followed through the operations of TensorFlow, eager
ones and those of a graph, to what is assigned. Only a variable that is assigned its own gradient counts: not
metrics, counters, averages or inputs. A sum over the workers ends the way, as does everything that is not a
plain operation of TensorFlow, such as a value that has been in NumPy.

What is refused, and when:

- at once: a gradient for variables of all workers that is asked for outside of ``strategy.run()``, in the
  scope, where TensorFlow itself fails; and variables of all workers that are assigned their gradient outside
  of ``strategy.run()``;
- at once: a plain variable in a worker without a strategy, because its TensorFlow has started by now and
  can't join the others any more;
- at the end of the program: a plain variable beside a strategy. It may be each worker's own, such as a
  perturbation of its rows, or be fitted alike on all. So the end is refused only if no gradients of anything
  have been added, and the workers either have other values, or have done nothing together at all. Until then
  a line says so.

A variable with ``trainable=False`` is never looked at.
"""

from __future__ import annotations

import functools
import linecache
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import StrategyError, TfmusterError
from ...system.activity import ACTIVITY
from ...system.say import say
from ...system.user_code import LIBRARY, user_line
from ...words import Argument, Words
from .. import seams
from ..agreement.refusals import tasks_text
from ..agreement.samples import close
from ..agreement.state import size_of
from ..process import PROCESS, multi_worker, tell
from ..step_rows import is_one_process
from .alone import LOOP_ALONE, refuse_loop
from .scopes import variable_of

if TYPE_CHECKING:
    import tensorflow as tf

#: The attribute of tensors that come of gradients: the handles of the variables for which they are.
_MARK: Final = "_tfmuster_gradient_of"
#: Operations that change a variable by what they are given.
_ASSIGNS: Final = re.compile(r"Assign|ResourceApply|ResourceSparseApply|ResourceScatter")
#: Operations after which a value may be the sum of all workers, or one of them.
_MAY_SUM: Final = re.compile(
    r"Collective|AllReduce|AllToAll|CrossReplica|Nccl|PyFunc|Call|While|If$|Case|Send|Recv|Encode|Write"
)
#: How many operations are followed without finding anything.
_MOST_OPERATIONS: Final = 20_000
#: How long the slowest worker may take to its end for a comparison, seconds.
_END_SECONDS: Final = 30.0


class _Trained(NamedTuple):
    """A variable that a tape has differentiated."""

    variable: Callable[[], Any]
    #: Whether it is one of all workers.
    of_all: bool


class _Following:
    """What is followed in this process."""

    def __init__(self) -> None:
        self.workers: Callable[[], int] = lambda: 0
        #: Variables by the ids of their handles, and those whose own gradient has been assigned.
        self.variables: dict[int, _Trained] = {}
        self.alone: dict[int, str] = {}
        #: Graphs with gradients, whose outputs come of them.
        self.graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        self.operations = 0
        self.on = False


_following: Final = _Following()


def patch_loops(workers: Callable[[], int]) -> None:
    """Follow the gradients of tapes, unless fewer than 2 ``workers()`` must train together."""
    import tensorflow as tf

    _following.workers = workers
    stock = seams.GRADIENT.get()

    @seams.GRADIENT.wrap
    def gradient(self: Any, target: object, sources: object, *args: object, **kwargs: object) -> Any:
        if is_one_process() or (count := workers()) < 2:
            return stock(self, target, sources, *args, **kwargs)
        variables = [variable_of(source) for source in tf.nest.flatten(sources)]
        strategy = tf.distribute.get_strategy()
        in_scope = multi_worker(strategy) and tf.distribute.in_cross_replica_context()
        if in_scope and any(isinstance(entry, tf.distribute.DistributedValues) for entry in variables):
            # TensorFlow's own message is about a handle.
            raise refuse_loop(count)
        gradients = stock(self, target, sources, *args, **kwargs)
        for variable, value in zip(variables, tf.nest.flatten(gradients), strict=True):
            if value is not None:
                _mark(variable, value)
        return gradients

    all_reduce = seams.ALL_REDUCE.get()

    @seams.ALL_REDUCE.wrap
    def summing(self: Any, *args: object, **kwargs: object) -> Any:
        PROCESS.adds_up = True
        return all_reduce(self, *args, **kwargs)


def _mark(variable: Any, gradient: Any) -> None:
    """Begin to follow a gradient, if its variable is one that this worker could train alone."""
    import tensorflow as tf

    distributed = isinstance(variable, tf.distribute.DistributedValues)
    of_all = distributed and multi_worker(variable.distribute_strategy)
    if not getattr(variable, "trainable", False) or (of_all and multi_worker(tf.distribute.get_strategy())):
        # In strategy.run(), TensorFlow lets nobody assign to a variable of all workers unless it adds up.
        return
    own = variable
    if distributed:
        (own, *_) = variable.distribute_strategy.experimental_local_results(variable)
    if not isinstance(own, tf.Variable) or "/job:ps" in str(own.device):
        return
    key = id(own.handle)
    if key not in _following.variables:
        # When the variable is gone, another object may get its id.
        gone = weakref.ref(variable, lambda _: _following.variables.pop(key, None))
        _following.variables[key] = _Trained(gone, of_all)
    for tensor in tf.nest.flatten(gradient, expand_composites=True):
        setattr(tensor, _MARK, frozenset([key]))
        if not tf.executing_eagerly():
            _following.graphs.add(tensor.graph)
    if not _following.on and key not in _following.alone and seams.ADD_OP_CALLBACK.fits:
        _following.on = True
        with tf.init_scope():
            seams.ADD_OP_CALLBACK.get()(_follow)


def _follow(kind: str | bytes, inputs: Any, _: object, outputs: Any, *more: Any, **named: Any) -> None:
    """See what an operation makes of gradients. TensorFlow calls it after each of them.

    It passes the name of the operation and its graph in one way or the other, and no graph in eager mode.
    """
    name, graph = (*more, named.get("op_name"), named.get("graph"))[:2]
    _following.operations += 1
    if _following.operations > _MOST_OPERATIONS and graph is None:
        _stop()
        return
    try:
        _see(kind if isinstance(kind, str) else kind.decode(), inputs, outputs, name, graph)
    except TfmusterError:
        raise
    except Exception as error:
        # The program is right without this, too.
        _stop()
        tell("own variables", f"gradients are not followed any more: {error!r}")


def _see(kind: str, inputs: Any, outputs: Any, name: str | None, graph: Any) -> None:
    if kind.startswith("__inference_"):
        _mark_results(kind, outputs)
        return
    read = kind == "ReadVariableOp"
    if read or _ASSIGNS.search(kind):
        handle = _outside(inputs[0], graph)
        marks = _marks(handle if read else inputs[1:])
        if not read:
            if id(handle) in marks:
                _assigned(id(handle), _line_of(name, graph))
            elif marks:
                setattr(handle, _MARK, marks | _marks(handle))
            return
    elif kind == "IdentityN":
        # Functions with gradients of their own end in it, with what they return and what they got.
        for tensor, output in zip(inputs, outputs, strict=True):
            if marks := _marks(tensor):
                setattr(output, _MARK, marks)
        return
    else:
        marks = _marks(inputs) if _passes_on(kind) else frozenset()
    if marks:
        for tensor in outputs:
            setattr(tensor, _MARK, marks)


def _marks(tensors: Any) -> frozenset[int]:
    tensors = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
    return frozenset().union(*(getattr(tensor, _MARK, ()) for tensor in tensors))


@functools.cache
def _passes_on(kind: str) -> bool:
    """Return whether what an operation makes comes of its inputs in this worker alone."""
    import tensorflow as tf

    # Other packages have operations of their own, such as Horovod's sums.
    return hasattr(tf.raw_ops, kind) and _MAY_SUM.search(kind) is None


def _outside(tensor: Any, graph: Any) -> Any:
    """Return the tensor that a graph, and those around it, have captured."""
    while graph is not None:
        found = (outer for outer, inner in getattr(graph, "captures", ()) if inner is tensor)
        if (outer := next(found, None)) is None:
            break
        tensor, graph = outer, getattr(outer, "graph", None)
    return tensor


def _mark_results(function: str, results: tuple[Any, ...]) -> None:
    """Mark the results of a function of TensorFlow that returns gradients."""
    for graph in _following.graphs:
        if function.startswith(f"__inference_{graph.name}_") and len(graph.outputs) == len(results):
            for result, output in zip(results, graph.outputs, strict=True):
                if marks := _marks(output):
                    setattr(result, _MARK, marks)


def _line_of(name: str | None, graph: Any) -> str | None:
    """Return the line of the program that has made an operation."""
    if graph is None or name is None:
        return user_line()
    # Autograph runs a copy of the function, and TensorFlow knows its lines.
    for file, number, *_ in reversed([*graph.get_operation_by_name(name).traceback]):
        if not LIBRARY.search(file) and not file.startswith("<"):
            return f"{Path(file).name}, line {number}: {linecache.getline(file, number).strip()}"
    return None


def _assigned(key: int, line: str | None) -> None:
    """A variable is assigned what comes of its own gradient in this worker alone."""
    trained = _following.variables.get(key)
    if trained is None or (variable := trained.variable()) is None or key in _following.alone:
        return
    name = _name_of(variable)
    where = f"{name} is assigned the gradient of one worker" + (f" ({line})" if line else "")
    if not trained.of_all and multi_worker(PROCESS.strategy):
        _following.alone[key] = name
        if set(_following.variables) <= set(_following.alone):
            _stop()
        if len(_following.alone) == 1:
            ACTIVITY.before_end = _compare
            say(
                Words(
                    "tfmuster: {}. If all workers are to train it together, make it in the strategy's "
                    "scope, and add the gradients. If it is each worker's own, make it with {}.",
                    where,
                    Argument("trainable", False),
                )
            )
    elif trained.of_all or PROCESS.strategy is None:
        _stop()
        found = LOOP_ALONE if trained.of_all else "without a strategy, each worker trains its own copy"
        raise refuse_loop(_following.workers(), f"{where}: {found}")


def _stop() -> None:
    if _following.on:
        _following.on = False
        _following.operations = 0
        seams.REMOVE_OP_CALLBACK.get()(_follow)


def _name_of(variable: tf.Variable) -> str:
    """Return the name that the program has for a variable, with its shape."""
    own = (name for name, value in vars(sys.modules["__main__"]).items() if value is variable)
    return f"{next(own, variable.name)} {tuple(variable.shape)}"


def _compare() -> None:
    """Raise a StrategyError at the end of a program whose workers have trained variables by themselves."""
    if PROCESS.adds_up or PROCESS.compare is None:
        return
    values = dict(_values())
    answer = PROCESS.compare("the variables of the program's own", values, timeout=_END_SECONDS)
    if not values or answer.absent:
        return
    for difference in answer.differences:
        sizes = [value for value, _ in difference.values]
        # One worker alone may fit something, such as a temperature.
        trained_by_all = all(isinstance(size, str) for size in sizes)
        if trained_by_all and not all(close(sizes[0], size) for size in sizes[1:]):
            others = tasks_text(task for _, tasks in difference.values[1:] for task in tasks)
            raise _at_end(f"{difference.name} of {others} differs from that of {difference.values[0][1][0]}")
    if ACTIVITY.executions == 0:
        raise _at_end(f"each worker has trained its own {next(iter(values))}, and they did nothing together")


def _at_end(found: str) -> StrategyError:
    return refuse_loop(_following.workers(), f"the program ends, and {found}: no gradients were added")


def _values() -> Iterator[tuple[str, str]]:
    for key, name in _following.alone.items():
        trained = _following.variables.get(key)
        if trained is not None and (variable := trained.variable()) is not None:
            yield name, size_of(variable.numpy())
