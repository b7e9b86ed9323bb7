"""Compare the workers' calls of ``fit``, ``evaluate``, and ``predict`` before their first step.

Workers with other numbers of steps, other rows, or another model wait for each other forever, or train
something that nobody wants.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Final

import orjson

from ...errors import DataError
from ...system.activity import ACTIVITY
from ...system.generators import job_seed, seed_generators, seed_tensorflow, tensorflow_seed
from ..process import PROCESS, is_chief
from .documents import Call, document_of, plain_name, weights_of
from .machines import MACHINE, agree_on_machines, this_machine
from .meaning import meaning_of, text_of
from .refusals import CHOOSES, PROGRAM, all_close, compare, refuse, rows_advice, tasks_text
from .samples import SAMPLE, VALUES, close, sums_of
from .state import checksum_of, refuse_other_values
from .values import Tree, digest_of

if TYPE_CHECKING:
    import jax
    import keras
    import numpy as np
    import numpy.typing as npt
    import tensorflow as tf

    from ..process import Difference
    from .documents import EpochIterator

#: The name of the checksum of the values that the next step depends on.
_VALUES: Final = "values"
#: How many parts of a part are compared one by one if their digests differ.
_MOST_PARTS: Final = 500
#: Until when the chief knows what another worker makes, in seconds: reports come once a second.
_REPORT_SECONDS: Final = 3.0
#: What TensorFlow says of a collective operation of tensors of different shapes.
_OTHER_SHAPE = re.compile(
    r"Op at device /job:(\w+)/replica:\d+/task:(\d+)/\S* expected shape (\[.*?\]) "
    r"but another member in the group expected shape (\[.*?\])"
)


def agree_on_call(model: keras.Model, epochs: EpochIterator | None, *, chooses: bool = False) -> bool:
    """Raise a DataError if the call that begins differs from those of the other workers.

    Return whether all workers may choose the steps per execution; ``chooses`` tells whether this one may.
    """
    call = Call.of(model)
    if call is None or call.compared or PROCESS.compare is None:
        return chooses
    call.compared = True
    call.document = document_of(call, epochs)
    if call.name == "fit":
        ACTIVITY.place().update(epoch=call.document["initial epoch"], epochs=call.document["epochs"])
    meaning = meaning_of(call)
    document = {**call.document, PROGRAM: digest_of(meaning), CHOOSES: chooses, MACHINE: this_machine()}
    if Call.current == [call]:
        # A call within another one, such as a validation, has the values that the outer one compares.
        document[_VALUES] = checksum_of(model)
    differences = compare(call.name, document, f"call {call.name}")
    if differences.pop(MACHINE, None) is not None:
        # A stale copy of a file explains the other differences.
        agree_on_machines(call.name)
    # A callback of one worker that needs every batch is no mistake.
    chooses = differences.pop(CHOOSES, None) is None and chooses
    if SAMPLE in differences:
        samples = [str(value) for value, _ in differences[SAMPLE].values]
        if all(close(samples[0], sample) for sample in samples[1:]):
            del differences[SAMPLE]
    values, program = differences.pop(_VALUES, None), differences.pop(PROGRAM, None)
    arrays = differences.pop(VALUES, None)
    if arrays is not None and program is None and not differences and epochs is not None:
        different = compare(f"the arrays of {call.name}", sums_of(epochs.data_adapter), f"call {call.name}")
        differences = {name: entry for name, entry in different.items() if not all_close(entry)}
    if "weights" in differences:
        details = PROCESS.compare(f"weights for {call.name}", weights_of(model))
        if details.differences:
            # The digest says less than the weights themselves.
            del differences["weights"]
        differences |= {difference.name: difference for difference in details.differences}
    if program is not None and not differences:
        differences = _in_program(call.name, meaning) or {PROGRAM: program}
    refuse(f"{call.name} begins", differences)
    if values is not None:
        refuse_other_values(model, since=f"when {call.name} begins")
    return chooses


def _in_program(call: str, tree: Tree) -> dict[str, Difference]:
    """Return the first part of what a call means that differs. All workers go down their trees together."""
    path: list[str] = []
    part, has_parts = tree, True
    while has_parts and isinstance(part, dict):
        digests = {name: digest_of(inner) for name, inner in itertools.islice(part.items(), _MOST_PARTS)}
        differences = compare(f"what {call} means", digests, f"call {call}")
        if not differences:
            return {}
        first = next(iter(differences.values()))
        path.append(first.name)
        part = part.get(first.name)
        has_parts = all(str(value).startswith("+") for value, _ in first.values)
    # A worker that has parts where another has a value shows them.
    value = orjson.dumps(part).decode() if isinstance(part, (dict, list)) else part
    name = f"{PROGRAM} {text_of(path, tree)}"
    return compare(f"what {call} means", {name: value}, f"call {call}")


def agree_on_end(model: keras.Model) -> None:
    """Tell the other workers that this worker's data have ended, and raise a DataError if theirs have not."""
    call = Call.of(model)
    if call is not None and call.compared and PROCESS.compare is not None:
        answer = PROCESS.compare(f"the end of the data of {call.name}", {})
        if answer.absent or answer.differences:
            doing = "; ".join(f"{task} is {text}" for task, text in answer.absent.items())
            raise ended_before(model, [*answer.absent], doing)


def ended_before(model: keras.Model, others: list[str], doing: str = "") -> DataError:
    """Return the error for a worker whose data have ended before those of the others."""
    call = Call.of(model)
    name, rest = call.name if call else "a call", " and ".join(others or ["the others"])
    ended = "" if ACTIVITY.data_ended is None else f"its data ended after {ACTIVITY.data_ended} batches"
    return DataError(
        f"The data of {name} ended on this worker before those of {rest}.",
        found="; ".join(filter(None, (ended, doing))) or None,
        fix=rows_advice(),
        reason="data-ended",
    )


def agree_on_stop(model: keras.Model, moment: str) -> bool:
    """Return whether ``model.stop_training`` is set on any worker, at the end of an epoch or of a batch.

    Raise a DataError if another worker is not at such a moment.
    """
    # A list of callbacks may be used without fit().
    stops = bool(getattr(model, "stop_training", False))
    call = Call.of(model)
    if call is None or not call.compared:
        return stops
    stops = stops or call.wishes_stop
    differences = compare(f"the end of {moment}", {"stop_training": stops}, f"call {call.name}")
    one_stops = differences.pop("stop_training", None) is not None
    refuse(f"{moment} ends", differences)
    return stops or one_stops


def agree_on_weight(name: str, value: npt.NDArray[np.generic] | jax.Array) -> None:
    """Raise a DataError if the other workers make a weight of another path, shape or type, or none."""
    weight = f"{plain_name(name)} {tuple(value.shape)} {value.dtype}"
    differences = compare("making a weight", {"weight": weight}, "make the same weights")
    refuse("they make a weight", differences)


def other_variable(making: str, text: str) -> DataError | None:
    """Return the error for workers that make different variables at the same time, or None.

    ``text`` is TensorFlow's error about the chief's first value of each variable, which all get.
    """
    if PROCESS.compare is None or "ollective" not in text or " expected " not in text:
        return None
    # The chief may wait in TensorFlow, and can't come. Its report says what it makes.
    answer = PROCESS.compare("making a variable", {"variable": making}, timeout=_REPORT_SECONDS)
    others = [
        f"{tasks_text(tasks)} {value}"
        for entry in answer.differences
        for value, tasks in entry.values
        if value != making
    ]
    others += [f"{task} is {doing}" for task, doing in answer.absent.items() if making not in doing]
    if not others:
        return None
    return DataError(
        "All workers must make the same variables in the same order.",
        found=f"this worker is making {making}; {'; '.join(others)}",
        fix="make models, layers, optimizers, metrics and random numbers of keras.random on every worker, "
        "also if only the chief uses them",
        reason="workers-differ",
    )


def other_weight(name: str, text: str) -> DataError | None:
    """Return the error for a weight that workers make in different shapes, or None.

    ``text`` is TensorFlow's error about the chief's first value of each weight, which all get. It names one
    worker, which need not be this one.
    """
    match = _OTHER_SHAPE.search(text)
    if match is None:
        return None
    task, shapes = f"{match[1]} {match[2]}", (match[3], match[4])
    return DataError(
        f"The workers must agree when they make a weight: {name} has the shape {shapes[0]} on {task}, "
        f"and {shapes[1]} on another worker.",
        fix="build the same model on every worker; if its size comes from the data, read the same data",
        reason="workers-differ",
        differences={"weight": {task: f"{name} {shapes[0]}", "another worker": f"{name} {shapes[1]}"}},
    )


def agree_on_predictions(model: keras.Model, sizes: list[int]) -> None:
    """Raise a DataError if the workers have predicted other numbers of rows."""
    call = Call.of(model)
    if call is not None and call.compared:
        document = {"number of rows": sum(sizes), "batches": len(sizes)}
        refuse("predictions are gathered", compare("gathering predictions", document, f"call {call.name}"))


def agree_on_seed(strategy: tf.distribute.Strategy) -> None:
    """Make the workers' global seeds of TensorFlow equal, unless the program has set one.

    Otherwise unseeded shuffling, and so the workers' parts of a global batch, would differ. The seed is the
    job's; without a rendezvous, the chief draws one.
    """
    if tensorflow_seed() is not None:
        return
    seed = job_seed()
    if seed is None:
        import tensorflow as tf

        drawn = tf.cast(int.from_bytes(os.urandom(3), "big") if is_chief(strategy) else 0, tf.int32)
        seed = int(strategy.reduce("SUM", drawn, axis=None))
        seed_generators(seed)
    seed_tensorflow(seed)
