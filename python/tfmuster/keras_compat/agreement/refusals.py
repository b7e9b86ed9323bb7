"""Compare documents of all workers, and refuse in words what differs.

``PROCESS.compare`` compares; without it, nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ...errors import DataError
from ...options.hints import Hint
from ...words import Argument, Code, Words
from ..process import PROCESS, keras_backend
from .samples import FILES, SAMPLE, close_sums

if TYPE_CHECKING:
    from ..process import Difference

CHOOSES = "tfmuster chooses the steps per execution"
#: Begins the names of what differs in what a call means.
PROGRAM: Final = "program"
_ADVICE = {
    "call": "make the same calls on every worker: fit, evaluate, and predict need all of them",
    "weight": "build the same model on every worker",
    PROGRAM: Words(
        "build and compile the same model on every worker, with the same arguments; what a worker draws, "
        "asks for or reads by itself, pass through {}",
        Code("tfmuster.broadcast()", "broadcast()"),
    ),
    "file": Words("put the same files on every machine, or send them with {}", Hint("files")),
    "package": "install the same packages on every machine",
    "variable": "give the variable the same value on every machine",
    "metrics": "compile the model with the same metrics on every worker",
    "validation": "give every worker the validation data, or none",
    CHOOSES: Words(
        "give every worker the same callbacks, or compile({})", Argument("steps_per_execution", 1)
    ),
}

_ROWS_ADVICE = (
    "read the same rows in the same order on every worker, with the same seed; tfmuster gives each worker "
    "its part. If the rows are meant to be each worker's own, say so: "
)
_FILES_ADVICE = "sort the names of the files: the order of glob and os.listdir differs between machines. Or "
_ABOUT_ROWS = ("steps", "rows", "number of rows", "batches", "labels", "batch size", "data set", "elements")


def compare(about: str, document: Mapping[str, object], duty: str) -> dict[str, Difference]:
    """Return what differs between the workers, by name; raise a DataError if some neglect their duty."""
    if PROCESS.compare is None:
        return {}
    answer = PROCESS.compare(about, document)
    refuse_absent(answer.absent, duty)
    return {difference.name: difference for difference in answer.differences}


def all_close(difference: Difference) -> bool:
    """Return whether sums of numbers differ no more than if machines have rounded them differently."""
    (first, _), *rest = difference.values
    return all(close_sums(str(first), str(value)) for value, _ in rest)


def refuse_absent(absent: Mapping[str, str], duty: str) -> None:
    """Raise a DataError if workers neglect a duty, such as ``call fit``, and say what they do instead."""
    if not absent:
        return
    doing = "; ".join(
        f"{task} {'' if text.startswith('has') else 'is '}{text}" for task, text in absent.items()
    )
    raise DataError(
        f"All workers must {duty}, but {doing}.",
        fix=f"{duty} on every worker, also if only the chief uses the result",
        reason="workers-differ",
        differences={"call": {**absent}},
    )


def refuse(moment: str, by_name: Mapping[str, Difference]) -> None:
    """Raise a DataError if workers differ when, for example, ``fit begins``."""
    if not by_name:
        return
    differences = list(by_name.values())
    first = differences[0]
    if first.name == "call":
        values = "; ".join(f"{tasks_text(tasks)}: {value}" for value, tasks in first.values)
        message = f"All workers must make the same call. They differ: {values}."
    else:
        values = ", ".join(
            f"{tasks_text(tasks)} {'has' if len(tasks) == 1 else 'have'} {_value(first.name, value)}"
            for value, tasks in first.values
        )
        message = f"The workers must agree when {moment}: {values}."
    values_of = {entry.name: {tasks_text(tasks): v for v, tasks in entry.values} for entry in differences}
    more = differences[1:] if first.name != "call" else []
    about_rows = first.name in _ABOUT_ROWS or first.name.startswith("rows ")
    advice = rows_advice() if about_rows else _ADVICE.get(first.name.split(" ")[0])
    if first.name == FILES:
        advice = _FILES_ADVICE + rows_advice()
    raise DataError(
        message,
        found="; ".join(f"{entry.name}: {entry}" for entry in more) or None,
        fix=_ADVICE.get(first.name) or advice or f"pass the same {first.name} on every worker",
        reason="workers-differ",
        differences=values_of,
    )


def rows_advice() -> str:
    """Return what to do if workers have other rows."""
    on_jax = keras_backend() == "jax"
    return _ROWS_ADVICE + (
        "DataParallel(auto_shard_dataset=False)" if on_jax else "tfmuster.own_rows(dataset)"
    )


def _value(name: str, value: object) -> str:
    counted = {"steps": "steps", "number of rows": "rows", "epochs": "epochs"}
    if name in counted:
        return f"an unknown number of {counted[name]}" if value is None else f"{value} {counted[name]}"
    if name == SAMPLE:
        return f"rows with the numbers {str(value)[:60]}"
    if name.startswith("rows "):
        return f"{name} with the sum {str(value).split()[0]}"
    name = name.removeprefix(f"{PROGRAM} ")
    return f"{name} {value}"


def tasks_text(tasks: Iterable[str]) -> str:
    """Return the names of tasks for a sentence."""
    return " and ".join(tasks)
