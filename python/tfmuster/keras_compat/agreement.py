"""Compare the workers' calls of ``fit``, ``evaluate``, and ``predict`` before their first step.

Workers with other numbers of steps, other rows, or another model wait for each other forever, or train
something that nobody wants. `use_agreement` sets the function that compares; without it, nothing is compared.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ..errors import DataError
from ..system.activity import ACTIVITY
from .data_samples import close, pipeline_of, sample_of
from .own_batches import OfLength
from .strategy_info import multi_worker

_CHOOSES = "tfmuster chooses the steps per execution"
_SAMPLE = "rows"
#: How many weights are compared one by one if their digests differ.
_MOST_WEIGHTS = 300
_ADVICE = {
    "call": "make the same calls on every worker: fit, evaluate, and predict need all of them",
    "weight": "build the same model on every worker",
    "optimizer": "compile the model with the same optimizer on every worker",
    "metrics": "compile the model with the same metrics on every worker",
    "validation": "give every worker the validation data, or none",
    _CHOOSES: "give every worker the same callbacks, or compile(steps_per_execution=1)",
}
_ROWS_ADVICE = (
    "read the same rows in the same order on every worker, with the same seed; tfmuster gives each worker "
    "its part. If the rows are meant to be each worker's own, say so: tfmuster.own_rows(dataset)"
)
_ABOUT_ROWS = ("steps", "rows", "number of rows", "batch size", "data set", "elements")


class Answer(Protocol):
    """What the comparison says: true if all workers agree."""

    differences: Iterable[Any]
    absent: Mapping[str, str]


_compare: list[Callable[[str, Mapping[str, Any]], Any]] = []


def use_agreement(compare: Callable[[str, Mapping[str, Any]], Any]) -> None:
    """Compare calls with this function: it takes the call's name and document, and returns an `Answer`."""
    _compare[:] = [compare]


class Call:
    """A call of ``fit``, ``evaluate``, or ``predict`` that runs."""

    current: list[Call] = []  # noqa: RUF012 - one list for all

    def __init__(self, name: str, model: Any, arguments: Mapping[str, Any]) -> None:
        self.name, self.model, self.arguments = name, model, arguments
        #: The epoch iterator of the call; for ``fit`` that of the training data.
        self.epochs: Any = None
        self.compared = False

    @classmethod
    def of(cls, model: Any) -> Call | None:
        """Return the innermost call, if it is one of this model."""
        return cls.current[-1] if cls.current and cls.current[-1].model is model else None

    @classmethod
    def reads(cls, epochs: Any) -> None:
        """Note the epoch iterator that the innermost call has made."""
        if cls.current and cls.current[-1].epochs is None:
            cls.current[-1].epochs = epochs


def patch_calls(trainer: Any) -> None:
    """Note which calls run, and their arguments."""

    def notes(stock: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(stock)

        @functools.wraps(stock)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not multi_worker(self._distribute_strategy):
                return stock(self, *args, **kwargs)
            try:
                arguments = signature.bind(self, *args, **kwargs).arguments
            except TypeError:
                return stock(self, *args, **kwargs)  # Keras itself reports what is wrong with the arguments.
            Call.current.append(Call(stock.__name__, self, arguments))
            try:
                with ACTIVITY.call(stock.__name__):
                    return stock(self, *args, **kwargs)
            finally:
                Call.current.pop()

        return method

    for name in ("fit", "evaluate", "predict"):
        setattr(trainer, name, notes(getattr(trainer, name)))


def agree_on_call(model: Any, epochs: Any, *, chooses: bool = False) -> bool:
    """Compare the call that begins with those of the other workers.

    Parameters
    ----------
    model : keras.Model
        The model whose method was called.
    epochs : keras EpochIterator
        The epoch iterator of the call's data.
    chooses : bool
        Whether this worker may choose the steps per execution.

    Returns
    -------
    bool
        Whether all workers may choose them.

    Raises
    ------
    DataError
        The calls differ, or a worker can't make its call.
    """
    call = Call.of(model)
    if call is None or call.compared or not _compare:
        return chooses
    call.compared = True
    if call.name == "fit":
        place = ACTIVITY.place()
        place["epoch"] = int(model._initial_epoch or call.arguments.get("initial_epoch", 0))
        place["epochs"] = int(call.arguments.get("epochs", 1))
    answer = _compare[0](call.name, {**_document(call, epochs), _CHOOSES: chooses})
    if answer.absent:
        raise _absent(call.name, answer.absent)
    differences = {each.name: each for each in answer.differences}
    if _SAMPLE in differences:
        samples = [str(value) for value, _ in differences[_SAMPLE].values]
        if all(close(samples[0], sample) for sample in samples[1:]):
            del differences[_SAMPLE]
    # A callback of one worker that needs every batch is no mistake.
    chooses = differences.pop(_CHOOSES, None) is None and chooses
    if "weights" in differences:
        details = _compare[0](f"weights for {call.name}", _weights(model))
        if details.differences:
            # The digest says less than the weights themselves.
            del differences["weights"]
        differences |= {each.name: each for each in details.differences}
    if differences:
        raise _differ(call.name, list(differences.values()))
    return chooses


def agree_on_end(model: Any) -> None:
    """Tell the other workers that this worker's data have ended, and raise a DataError if theirs have not."""
    call = Call.of(model)
    if call is not None and call.compared and _compare:
        answer = _compare[0](f"the end of the data of {call.name}", {})
        if answer.absent or list(answer.differences):
            others = [*answer.absent] or ["the others"]
            raise DataError(
                f"The data of {call.name} ended on this worker before those of {' and '.join(others)}.",
                found="; ".join(f"{task} is {text}" for task, text in answer.absent.items()) or None,
                fix=_ROWS_ADVICE,
                path=None,
                reason="data-ended",
            )


def agree_on_stop(model: Any) -> bool:
    """Return whether ``model.stop_training`` is set on any worker, after the same epoch on all of them.

    Raises
    ------
    DataError
        Another worker is not at the end of this epoch.
    """
    call = Call.of(model)
    stops = bool(model.stop_training)
    if call is None or not call.compared or not _compare:
        return stops
    answer = _compare[0]("the end of an epoch", {"stop_training": stops})
    if answer.absent:
        raise _absent(call.name, answer.absent)
    differences = [each for each in answer.differences if each.name != "stop_training"]
    if differences:
        raise _differ("the end of an epoch", differences)
    return stops or bool(answer.differences)


def _document(call: Call, epochs: Any) -> dict[str, Any]:
    model, arguments = call.model, call.arguments
    document: dict[str, Any] = {}
    if epochs is not None:
        document |= _data(epochs)
    if call.name == "fit":
        document["epochs"] = arguments.get("epochs", 1)
        document["initial epoch"] = int(model._initial_epoch or arguments.get("initial_epoch", 0))
        document["validation"] = bool(
            arguments.get("validation_data") is not None or arguments.get("validation_split")
        )
        document["validation frequency"] = str(arguments.get("validation_freq", 1))
        document["optimizer"] = _optimizer(model.optimizer)
    if call.name != "predict":
        document["metrics"] = [_plain(metric.name) for metric in model.metrics]
    document["steps per execution"] = model.steps_per_execution
    document["weights"] = hashlib.sha256(str(_weights(model)).encode()).hexdigest()
    return {name: _json(value) for name, value in document.items()}


def _data(epochs: Any) -> dict[str, Any]:
    import tensorflow as tf

    adapter = epochs.data_adapter
    dataset = getattr(adapter, "_dataset", None)
    local = getattr(epochs, "_distributed_dataset", None)
    if not isinstance(local, tf.data.Dataset) or isinstance(adapter, OfLength):
        return {"whose rows": "each worker's own"}
    document = {
        "whose rows": "all workers'",
        "steps": epochs.steps_per_epoch or adapter.num_batches,
        "number of rows": getattr(adapter, "_num_samples", None),
        "batch size": adapter.batch_size,
        "data set": pipeline_of(dataset),
        _SAMPLE: sample_of(epochs),
    }
    spec = dataset.element_spec if isinstance(dataset, tf.data.Dataset) else None
    arrays = tf.nest.flatten(spec if spec is not None else getattr(adapter, "_inputs", None))
    document["elements"] = [
        f"{list(each.shape)[1:]} {getattr(each.dtype, 'name', each.dtype)}"
        for each in arrays
        if hasattr(each, "shape") and hasattr(each, "dtype") and each.shape.__len__() > 0
    ]
    return document


def _weights(model: Any) -> dict[str, str]:
    """Return the shape and type of each weight, with the name that it would have in a fresh process."""
    weights = model.weights if model.built else []
    return {
        f"weight {number}": f"{_plain(weight.path)} {tuple(weight.shape)} {weight.dtype}"
        for number, weight in enumerate(weights[:_MOST_WEIGHTS])
    } | {"number of weights": str(len(weights))}


def _optimizer(optimizer: Any) -> str:
    """Return an optimizer's class and its settings that are plain values."""
    if optimizer is None or not hasattr(optimizer, "get_config"):
        return type(optimizer).__name__
    settings = {
        key: round(value, 9) if isinstance(value, float) else value
        for key, value in optimizer.get_config().items()
        if isinstance(value, (int, float, str)) and key != "name"
    }
    return f"{type(optimizer).__name__} {settings}"


def _plain(name: str) -> str:
    """Remove the numbers that Keras adds to names: they count the layers that a process has made."""
    return re.sub(r"_\d+(?=/|$)", "", str(name))


def _json(value: Any) -> Any:
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, list):
        return [str(each) for each in value]
    return float(value) if isinstance(value, float) else int(value)


def _differ(call: str, differences: list[Any]) -> DataError:
    """Make the error for calls that differ, from the differences by their names."""
    first = differences[0]
    if first.name == "call":
        said = "; ".join(f"{_tasks(tasks)}: {value}" for value, tasks in first.values)
        message = f"All workers must make the same call. They differ: {said}."
    else:
        said = ", ".join(
            f"{_tasks(tasks)} {_has(tasks)} {_value(first.name, v)}" for v, tasks in first.values
        )
        message = f"The workers must agree when {call} begins: {said}."
    values_of = {each.name: {_tasks(tasks): value for value, tasks in each.values} for each in differences}
    more = differences[1:] if first.name != "call" else []
    advice = _ROWS_ADVICE if first.name in _ABOUT_ROWS else _ADVICE.get(first.name.split(" ")[0])
    return DataError(
        message,
        found="; ".join(f"{each.name}: {each}" for each in more) or None,
        fix=_ADVICE.get(first.name) or advice or f"pass the same {first.name} on every worker",
        path=None,
        reason="workers-differ",
        differences=values_of,
    )


def _value(name: str, value: Any) -> str:
    counted = {"steps": "steps", "number of rows": "rows", "epochs": "epochs"}
    if name in counted:
        return f"an unknown number of {counted[name]}" if value is None else f"{value} {counted[name]}"
    if name == _SAMPLE:
        return f"rows with the sample {str(value)[:60]}"
    return f"{name} {value}"


def _tasks(tasks: Iterable[str]) -> str:
    return " and ".join(tasks)


def _has(tasks: Any) -> str:
    return "has" if len(tasks) == 1 else "have"


def agree_on_predictions(model: Any, sizes: list[int]) -> None:
    """Raise a DataError if the workers have predicted other numbers of rows."""
    call = Call.of(model)
    if call is not None and call.compared and _compare:
        answer = _compare[0]("gathering predictions", {"number of rows": sum(sizes), "batches": len(sizes)})
        if answer.absent:
            raise _absent(call.name, answer.absent)
        if differences := list(answer.differences):
            raise _differ("gathering predictions", differences)


def _absent(call: str, absent: Mapping[str, str]) -> DataError:
    said = "; ".join(
        f"{task} {'' if text.startswith('has') else 'is '}{text}" for task, text in absent.items()
    )
    return DataError(
        f"All workers must call {call}, but {said}.",
        fix=f"call {call} on every worker, also if only the chief uses the result",
        path=None,
        reason="workers-differ",
        differences={"call": {**absent}},
    )
