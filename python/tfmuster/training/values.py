"""What workers do together: the value of the chief for all, those of each, and one worker first."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..cluster.resolvers import join_engine
from ..cluster.spec import TRAINING, training_tasks
from ..environment import INDEPENDENT_VARIABLE, is_on
from ..errors import DataError
from ..keras_compat.choices import COMMUNICATION
from ..keras_compat.sums.collectives import sums_directly
from ..options.hints import Hint
from ..rendezvous.task.join import join_cluster
from ..rendezvous.task.values import values_of_tasks
from ..system.only_one import machine_name
from ..tracking.values.plain_values import NotPlainError, read_plain, write_plain
from ..tracking.values.rds import NotDataError, check_rds_bytes
from ..words import Words


def broadcast(value: Any = None) -> Any:
    """Return the chief's value on every worker.

    Each worker runs the program. What one of them draws, asks for or finds out by itself, such as the
    hyper-parameters of a trial or the time, may differ from what the others have. All workers must call this
    function equally often and in the same order. It needs no TensorFlow. The first call waits for all
    workers, as a strategy does.

    Parameters
    ----------
    value : None, bool, number, text, bytes, date, path, array, tensor, pandas data, or a structure of them
        The value, of which the chief's counts. It travels in a form that runs nothing when it is read.

    Returns
    -------
    object
        The chief's value. In one process, and with parameter servers, ``value`` itself.

    Raises
    ------
    DataError
        The value has another type (reason ``not-plain``), a worker makes another call or has finished its
        program (``workers-differ``), or the workers are independent (``independent``).
    RendezvousError
        Not all workers arrived in time.

    Examples
    --------
    >>> import optuna  # doctest: +SKIP
    >>> study = optuna.create_study()  # doctest: +SKIP
    >>> trial = study.ask()  # doctest: +SKIP
    >>> rate = tfmuster.broadcast(trial.suggest_float("rate", 1e-4, 1e-1, log=True))  # doctest: +SKIP
    """
    return _values("broadcast", value)[0]


def gather(value: Any) -> list[Any]:
    """Return the values of all workers, in the order of the cluster, on every worker.

    All workers must call it equally often and in the same order. It is for small values, such as a count or a
    score: they travel through the chief. It needs no TensorFlow.

    Parameters
    ----------
    value : as for :func:`broadcast`
        This worker's value.

    Returns
    -------
    list
        One value for each worker that trains, the chief's first. In one process, ``[value]``.

    Raises
    ------
    DataError, RendezvousError
        As :func:`broadcast` does.

    Examples
    --------
    >>> tfmuster.gather(len(rows))  # doctest: +SKIP
    [512, 498]
    """
    return _values("gather", value)


def all_rows(tensor: Any) -> Any:
    """Return the rows of all workers, in the order of the global batch, in a step of ``fit``.

    It is for a loss that compares the rows of a batch with each other, such as one with in-batch negatives,
    in a ``train_step()``, a ``compute_loss()``, or a layer's ``add_loss()``. Each worker has a part of the
    batch, and this function gives it the rest. A loss that is computed from all rows is that of one process,
    and so are its gradients. Metrics add up the workers' rows, so give them the worker's own. All workers
    must call it equally often and in the same order. ``all_gather(axis=0)`` of TensorFlow's replica context
    does the same there.

    Parameters
    ----------
    tensor : tf.Tensor, shape (rows, ...), of any dtype
        Something of this worker's rows, such as embeddings or labels.

    Returns
    -------
    tf.Tensor, shape (rows of the global batch, ...)
        Outside of a step, in one process, and on JAX, where arrays have all rows, ``tensor`` itself.

    Raises
    ------
    StrategyError
        The model has ``run_eagerly=True`` (reason ``run-eagerly``).

    Examples
    --------
    >>> def compute_loss(self, x, y, y_pred, sample_weight, training=True):  # doctest: +SKIP
    ...     queries, items = map(tfmuster.all_rows, y_pred)
    ...     scores = keras.ops.matmul(queries, keras.ops.transpose(items))
    ...     of_same_row = keras.ops.arange(keras.ops.shape(scores)[0])
    ...     return keras.losses.SparseCategoricalCrossentropy(from_logits=True)(of_same_row, scores)
    """
    if "tensorflow" not in sys.modules:
        return tensor
    from ..keras_compat.losses import loss_reduction

    return loss_reduction.all_rows(tensor)


@contextlib.contextmanager
def chief_first() -> Iterator[None]:
    """Run a block on the first worker of each machine, and afterwards on the others.

    It is for what one worker prepares and the others then find: a download, a folder, a file of unpacked or
    converted data. All workers must reach it, and it needs no TensorFlow. The first worker of a machine is
    the chief on its own machine, else the one with the lowest index.

    Raises
    ------
    DataError
        A worker makes another call or has finished its program (reason ``workers-differ``), or the workers
        are independent (``independent``).
    RendezvousError
        Not all workers arrived in time.

    Examples
    --------
    >>> with tfmuster.chief_first():  # doctest: +SKIP
    ...     if not folder.exists():
    ...         prepare(folder)
    """
    first = begin_chief_first()
    try:
        yield
    finally:
        if first:
            end_chief_first()


def begin_chief_first() -> bool:
    """Wait for the first worker of this machine. Return whether others wait for this one."""
    machine = machine_name().encode()
    machines = _shared("chief_first", lambda: machine)
    if machines is None:
        return False
    task = join_engine()
    assert task is not None, "it has shared the machine's name"
    position = [other.name for other in training_tasks(task.cluster)].index(task.name)
    if len(set(machines)) == len(machines):
        return False
    first = machines.index(machine) == position
    if not first:
        end_chief_first()
    return first


def end_chief_first() -> None:
    """Wait until the first workers of all machines have run their blocks."""
    values_of_tasks("the end of chief_first", b"", of_chief=True)


def share_file(call: str, path: str) -> list[str]:
    """Do the call for the value in a file of R's ``saveRDS()``, and return the files of what it returns."""
    file = Path(path)

    def checked() -> bytes:
        content = file.read_bytes()
        try:
            check_rds_bytes(content)
        except NotDataError as error:
            raise _not_plain(call, str(error)) from None
        return content

    contents = _shared(call, checked)
    if contents is None:
        return [path]
    paths = []
    for number, content in enumerate(contents):
        check_rds_bytes(content)
        paths.append(file.with_name(f"{number}.rds"))
        paths[-1].write_bytes(content)
    return [str(path) for path in paths]


def _values(call: str, value: Any) -> list[Any]:
    def written() -> bytes:
        content = io.BytesIO()
        try:
            write_plain(content, value)
        except NotPlainError as error:
            raise _not_plain(call, str(error)) from None
        return content.getvalue()

    contents = _shared(call, written)
    return [value] if contents is None else [read_plain(io.BytesIO(content)) for content in contents]


def _shared(call: str, write: Callable[[], bytes]) -> list[bytes] | None:
    """Return what the chief, or for ``gather`` each worker, has written; None if it trains alone."""
    task = join_engine()
    if task is None or task.type not in TRAINING or len(training_tasks(task.cluster)) < 2:
        return None
    if task.cluster.jobs.get("ps"):
        # The coordinator alone runs the program.
        return None
    if is_on(INDEPENDENT_VARIABLE):
        raise DataError(
            f"Independent workers do not wait for each other, and {call} would.",
            found=Words("{}", Hint("independent", True)),
            fix="return the value from a function that you launch, or write it to a file",
            reason="independent",
        )
    of_chief = call == "broadcast"
    content = write() if task.is_chief or not of_chief else b""
    join_cluster(task, link=sums_directly(COMMUNICATION.checked()))
    return values_of_tasks(call, content, of_chief=of_chief)


def _not_plain(call: str, found: str) -> DataError:
    return DataError(
        f"{call} takes values that run nothing when they are read.",
        found=found,
        fix="pass numbers, text, arrays, data frames, or lists of them",
        reason="not-plain",
    )
