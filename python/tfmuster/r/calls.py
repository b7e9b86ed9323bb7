"""Functions that only R calls: jobs that it shows, failures of workers, and its methods for Keras models."""

from __future__ import annotations

import shlex
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tfmuster

from ..system.say import heard_by, say
from ..tracking.failure.failure import Failure
from ..tracking.values.rds import NotDataError, check_rds_bytes

if TYPE_CHECKING:
    import keras

    from ..options.places import Place
    from ..tracking.run import Run

#: The columns of the data frame that a model was first fitted to.
_columns: weakref.WeakKeyDictionary[keras.Model, list[str]] = weakref.WeakKeyDictionary()

#: What a model was fitted to by R's formulas and factors, as R has serialized it.
_tables: weakref.WeakKeyDictionary[keras.Model, bytes] = weakref.WeakKeyDictionary()


def launch_shown(
    show: Callable[[str], object],
    glance: Callable[[Mapping[str, object]], object],
    /,
    *args: Any,
    on: Mapping[str, object],
    control: Mapping[str, Any],
    **kwargs: Any,
) -> Run:
    """Launch a job whose output R's functions show; see :func:`.launcher.supervise.display.shown_by`.

    Settings are dicts, of which those of ``on`` have the engine's name as ``backend``.
    """
    from ..launcher.supervise.display import shown_by, shown_path
    from ..options.table import Control

    begun = time.monotonic()
    with shown_by(show, glance), heard_by(show):
        run: Run = tfmuster.launch(*args, on=_place(on), control=Control(**control), **kwargs)
        if not kwargs.get("quiet"):
            waited = kwargs.get("wait", True)
            ending = f" in {time.monotonic() - begun:.1f} s" if waited else f"; {shown_path(run)}"
            say(f"tfmuster: {run.status()['state']}{ending}")
        return run


def selftest_shown(show: Callable[[str], object], /, *args: Any, **kwargs: Any) -> dict[str, object]:
    """Run the self-test, and pass what it does to a function of R."""
    with heard_by(show):
        report: dict[str, object] = tfmuster.selftest(*args, **kwargs, tell=True)
        return report


def where_text(on: Mapping[str, object]) -> str:
    """Return the command that runs a script where these settings say, as a shell takes it."""
    from ..launcher.engines.base import engine_for

    return shlex.join(["tfmuster", "launch", *engine_for(_place(on)).as_options(), "SCRIPT"])


def any_values(on: Mapping[str, object]) -> bool:
    """Do what :func:`tfmuster.launcher.function.any_values` does."""
    from ..launcher.function import any_values

    return any_values(_place(on))


def _place(on: Mapping[str, object]) -> Place:
    from ..launcher.engines.base import place_for

    return place_for(str(on["backend"]), {name: value for name, value in on.items() if name != "backend"})


def failure_texts(error: Mapping[str, object], *, cause: str | None, shown: bool) -> dict[str, str | None]:
    """Return ``message``, ``found`` and ``fix`` of a worker's failure, from the fields of its WorkerError.

    The message begins with the cause, because ``tryCatch(..., error = function(e) e$message)`` reads nothing
    else. `cause` is the message of the worker's own condition, which R shows below with its backtrace.
    `shown` is whether the session has shown the worker's output.
    """
    failure = Failure.from_dict(error)
    lines = [] if shown else failure.lines_before()
    last_lines = ["Its last lines:", *(f"  {line}" for line in lines)] if lines else []
    details = failure.details(shown=shown) if cause is None else last_lines
    fix = [f"Full output: {failure.log}", failure.advice()]
    return {
        "message": failure.cause_first(cause),
        "found": "\n".join(details).strip("\n") or None,
        "fix": "\n".join(filter(None, fix)),
    }


def condition_bytes(text: str | None) -> bytearray | None:
    """Return a script's condition (`Failure.condition`) as R reads it; None if it holds more than data."""
    try:
        content = bytearray.fromhex(text or "")
        check_rds_bytes(bytes(content))
    except (ValueError, NotDataError):
        return None
    return content


def call_method(model: keras.Model, name: str, /, *args: object, **kwargs: object) -> object:
    """Call a method of a Keras model, so that tfmuster's own errors become R conditions."""
    return getattr(model, name)(*args, **kwargs)


def check_optimizer(name: str) -> None:
    """Raise ModelError, with the name that was probably meant, if Keras has no such optimizer."""
    import keras

    from ..digits.models import not_made

    try:
        keras.optimizers.get(name)
    except (TypeError, ValueError) as error:
        raise not_made(keras, name, {}, error) from error


def columns_of(model: keras.Model, columns: Sequence[str] | None = None) -> list[str] | None:
    """Return the names of the columns that a model was fitted to; None if they are not known.

    `columns` are recorded if the model has none.
    """
    if columns is not None:
        _columns.setdefault(model, list(columns))
    return _columns.get(model)


def table_of(model: keras.Model, table: bytes | None = None) -> bytes | None:
    """Return what R knows of the table that a model was fitted to, after recording `table` if it is given."""
    if table is not None:
        _tables[model] = bytes(table)
    return _tables.get(model)


def ready_for_generators() -> None:
    """Patch Keras, so that it calls generators in R's thread."""
    from ..rendezvous.task.agreement import prepare_keras

    prepare_keras()
