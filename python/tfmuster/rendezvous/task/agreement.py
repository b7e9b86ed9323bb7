"""Let all tasks that train compare a small document, in the name of Keras, too.

The documents travel over the control channel, and not in a collective operation, which would hang if a task
did not take part. Each task numbers its exchanges from 1; the chief compares the documents of one number and
answers all tasks at once. A task that can't come is named with what it does instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from ...cluster.spec import TRAINING, training_tasks
from ...net.channel import Message
from ...system.say import say
from ...tracking.record.lines import say_note
from .control_channel import ControlChannel

#: Largest document, in bytes of JSON.
MAX_DOCUMENT: Final = 48 * 1024
#: How long after its collective operation was aborted a task waits for the failure of another, in seconds.
_CAUSE_SECONDS: Final = 3.0


def raise_cause() -> None:
    """Raise the failure of another task that aborted an operation of this one, as soon as it is known."""
    control = ControlChannel.current()
    if control is not None:
        control.wait_done(_CAUSE_SECONDS)


@dataclass(frozen=True)
class Difference:
    """One entry of the documents that is not equal on all tasks."""

    name: str
    #: Each value, as in the document, with the first tasks that have it. None for an absent entry.
    values: tuple[tuple[object, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return ", ".join(f"{' and '.join(tasks)}: {value}" for value, tasks in self.values)


@dataclass(frozen=True)
class Comparison:
    """The result of an exchange. It is the same on all tasks, and false if there is anything to report."""

    #: The first entries that differ, in the order of the documents.
    differences: tuple[Difference, ...] = ()
    #: Tasks that did not come in time or can't come, and what each does instead.
    absent: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return not self.differences and not self.absent


def agree(about: str, document: Mapping[str, object], *, timeout: float | None = None) -> Comparison:
    """Send this task's document to the others, and wait for the comparison of all.

    Every task of the job that trains must call this function equally often. ``about``, such as ``"fit"``, is
    compared like the document: JSON values, at most `MAX_DOCUMENT` bytes, else ValueError. ``timeout``
    (seconds) is how long the slowest task may take; by default, only the job's limit for stalls counts. The
    result is true, too, without a connection or another task. Raises WorkerError if the job fails meanwhile.
    """
    control = ControlChannel.current()
    if control is None or not control.active or control.task.type not in TRAINING:
        return Comparison()
    if len(training_tasks(control.task.cluster)) < 2:
        return Comparison()
    size = len(orjson.dumps(document))
    if size > MAX_DOCUMENT:
        raise ValueError(f"a document of {size} bytes; at most {MAX_DOCUMENT} are allowed")
    reply = exchange(control, about, document, timeout=timeout)
    return Comparison() if reply is None else comparison_in(reply)


def exchange(
    control: ControlChannel,
    about: str,
    document: Mapping[str, object],
    *,
    piece: object = None,
    timeout: float | None = None,
) -> Message | None:
    """Send a document, perhaps with a piece of a value, and return the answer; None if the job is over."""
    message = {"type": "agree", "about": about, "document": document, "limit": timeout, "piece": piece}
    return control.ask(message, None if timeout is None else timeout + 10.0)


def comparison_in(reply: Message) -> Comparison:
    """Return what the chief has found in an exchange."""
    differences = [
        Difference(name, tuple((value, tuple(tasks)) for value, tasks in values))
        for name, values in reply.get("differ", ())
    ]
    return Comparison(tuple(differences), dict(reply.get("absent", {})))


def prepare_keras() -> bool:
    """Patch the imported Keras for several workers; see :func:`tfmuster.keras_compat.install`.

    Whatever a program uses first comes here: `strategy`, `checkpoint_callback`, R's methods, or, in a worker,
    the import of Keras.
    """
    from ...keras_compat import install, install_on_jax
    from ...keras_compat.process import PROCESS, keras_backend, listen

    PROCESS.raise_cause = raise_cause
    if keras_backend() == "jax":
        install_on_jax()
    elif install():
        listen(say_note)
        listen(_print_what_users_should_know)
    else:
        return False
    PROCESS.compare = agree
    return True


def _print_what_users_should_know(about: str, text: str, *, selected: bool = True, **_: object) -> None:
    """Print a note that each worker reads all data, or, on the chief, that files differ."""
    if about == "input" and not selected:
        say(f"tfmuster: input does not get faster with more workers: {text}")
    elif about == "files" and (control := ControlChannel.current()) is not None and control.task.is_chief:
        say(f"tfmuster: {text}")
