"""Send a Python function to the workers, and collect the values that it returns.

``launch(function)`` pickles the function and everything it uses with cloudpickle, into the folder ``call``
of the run directory. Only this user can read that folder. Each worker is a new Python process that calls
the function and writes its value there. The file is also sent to workers on other machines. Those write
their values in a form that runs nothing when it is read (:mod:`tfmuster.tracking.values.plain_values`),
unless the user trusts them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..cluster.tf_config import current_task
from ..environment import RUN_DIR_VARIABLE
from ..errors import LaunchError
from ..options.hints import Hint, Launch
from ..options.places import Elsewhere, Place, Ssh
from ..strategies.by_name import check_name
from ..system.replace import replacing_file
from ..tracking.record.layout import CALL, file_stem, sha256_of
from ..tracking.values.plain_values import NotPlainError, PackedModel, plain_error, write_plain
from ..words import Words, language
from .engines.hosts import named_hosts, only_this_machine

WORKER = Path(__file__).with_name("function_worker.py")
_CALL = "call.pkl"


def name_of(function: Callable[..., object]) -> str:
    """Return the name of the function's runs."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"


def any_values(on: Place) -> bool:
    """Return whether workers may return what runs code when read: here, or if their hosts are trusted."""
    if not isinstance(on, Elsewhere) or on.trust_hosts:
        return True
    return isinstance(on, Ssh) and on.hosts is not None and only_this_machine(named_hosts(on.hosts, None))


def put_call(
    folder: Path,
    function: Callable[..., object],
    args: Sequence[object],
    strategy: str,
    *,
    plain: bool = False,
) -> tuple[Path, str]:
    """Write the file that the workers read, into the folder ``call`` of the run directory.

    `plain` is whether values must be in the form that runs nothing. Return the file, and the SHA-256 of its
    content, which workers compare.
    """
    import cloudpickle

    check_name(strategy)
    _check_arguments(function, args)
    try:
        with _by_value(inspect.getmodule(function)):
            work = cloudpickle.dumps((function, tuple(args)))
    except Exception as error:
        raise LaunchError(
            "A function for workers, its arguments and everything it uses must be picklable.",
            found=f"{type(error).__name__}: {error}".splitlines()[0],
            fix="Create other objects, such as a dataset, a lock or a connection, inside the function.",
            reason="function",
        ) from error
    call = {"work": work, "strategy": strategy, "path": sys.path, "plain": plain}
    _write(folder / _CALL, call)
    return folder / _CALL, sha256_of(folder / _CALL)


def _check_arguments(function: Callable[..., object], args: Sequence[object]) -> None:
    """Raise a LaunchError if the function can't be called with these arguments and a strategy."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # Some functions that are written in C don't tell their arguments.
    place = _place_of_strategy(function)
    positional = [*args]
    named = {} if place is None or place <= len(positional) else {"strategy": None}
    if place is not None and not named:
        positional.insert(place, None)
    try:
        bound = signature.bind_partial(*positional, **named).arguments
    except TypeError as error:
        raise LaunchError(
            "The function must take the arguments that you pass to it.",
            found=f"{name_of(function)}{signature}: {error}",
            fix="Pass values for its arguments alone; a strategy is made for an argument named `strategy`.",
            reason="argument",
        ) from None
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind not in any_number]
    if missing := [p for p in needed if p.name not in bound]:
        by_name = any(p.kind is p.KEYWORD_ONLY for p in missing)
        raise LaunchError(
            "Every argument of the function must have a value or a default.",
            found=f"no value for {', '.join(f'`{p.name}`' for p in missing)}",
            fix="Bind keyword arguments: launch(functools.partial(function, name=value))."
            if by_name
            else "Pass the values after the function: launch(function, value).",
            reason="argument",
        )


def work_on_call(digest: str, sent: Sequence[str]) -> None:
    """Call the function on a worker, and write its value.

    `digest` is the SHA-256 of the file with the function, and `sent` its path in the working directory, if it
    was sent.
    """
    folder = Path(os.environ[RUN_DIR_VARIABLE]) / CALL
    places = [folder / _CALL, *map(Path, sent)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise LaunchError(
            "The function to run must be in the run directory.",
            found=f"no file {places[0]} on this machine",
            fix="With hosts, choose a run_dir on a file system that all hosts share.",
            reason="function",
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise LaunchError(
            "The function to run must be the one that was launched.",
            found=f"{path} has another content",
            fix="Give each job a run_dir of its own.",
            reason="function",
        )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    task = current_task()
    assert task is not None
    call = pickle.loads(content)
    put = _put_plain if call["plain"] else _put_pickled
    result_path = folder / file_stem(task.name)
    # On the user's machine, the function can import what the user's session can.
    sys.path += [entry for entry in call["path"] if entry not in sys.path]
    function, args = pickle.loads(call["work"])
    if (place := _place_of_strategy(function)) is not None:
        # Make the strategy first: TensorFlow must not be in use before.
        from ..strategies.by_name import strategy

        if place <= len(args):
            args = (*args[:place], strategy(call["strategy"]), *args[place:])
        else:
            function = functools.partial(function, strategy=strategy(call["strategy"]))
    try:
        put(result_path, value=_packed(function(*args)))
    except Exception as error:
        # An exception that can't be sent is only in the log.
        with contextlib.suppress(Exception):
            put(result_path, error=error)
        raise


def _put_pickled(path: Path, **result: object) -> None:
    """Write the value or the error of a worker whose machine is trusted."""
    try:
        _write(path.with_suffix(".pkl"), result)
    except Exception as error:
        raise LaunchError(
            "The value that a function on workers returns must be picklable.",
            found=f"{type(error).__name__}: {error}".splitlines()[0],
            fix="Return numbers, arrays or text; Keras models and histories can be returned as they are.",
            reason="value",
        ) from error


def _put_plain(path: Path, **result: object) -> None:
    """Write the value or the error of a worker on another machine, which runs nothing when it is read."""
    if isinstance(error := result.get("error"), Exception):
        result = {"error": plain_error(error)}
    try:
        with replacing_file(path.with_suffix(".value"), mode=0o600) as file:
            write_plain(file, result, where="")
    except NotPlainError as problem:
        raise LaunchError(
            "A function on other machines must return data: numbers, text, arrays, Keras models, and "
            "lists and dicts of them.",
            found=str(problem),
            fix=Words(
                "Return its parts. If you trust all hosts of the job, write {}: reading other objects "
                "runs code from them on your machine.",
                Launch((Hint("trust_hosts", True),), of=language()),
            ),
            reason="value",
        ) from problem


def _place_of_strategy(function: Callable[..., object]) -> int | None:
    """Return the position of the argument `strategy`; `sys.maxsize` if keyword-only, None if missing."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    wanted = parameters.get("strategy")
    if wanted is None or (isinstance(function, functools.partial) and "strategy" in function.keywords):
        return None
    return list(parameters).index("strategy") if wanted.kind <= wanted.POSITIONAL_OR_KEYWORD else sys.maxsize


def _packed(value: Any) -> Any:
    """Make a value picklable: Keras models become bytes (the chief's only), and histories dicts."""
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(value, keras.Model):
        from ..models.saving import save_model

        # All workers make this call, and only the chief writes. The other workers' models are equal.
        with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
            path = save_model(value, Path(scratch, "model.keras"))
            return None if path is None else PackedModel(path.read_bytes())
    if keras is not None and isinstance(value, keras.callbacks.History):
        return value.history
    if type(value) is dict:
        return {key: _packed(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_packed, value))
    return value


@contextlib.contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Pickle the user's own module by value inside the block, because hosts may not have it."""
    import cloudpickle

    path = getattr(module, "__file__", None)
    if module is None or path is None or module.__name__ == "__main__" or _installed(path):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _installed(path: str) -> bool:
    folders = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    folders += [site.getusersitepackages(), str(Path(__file__).parent.parent)]
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _write(path: Path, value: object) -> None:
    """Replace a file that only this user can read. If that fails, there is no file."""
    import cloudpickle

    data = cloudpickle.dumps(value)
    with replacing_file(path, mode=0o600) as file:
        file.write(data)
