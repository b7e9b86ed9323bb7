"""Call functions for the R package, and return their values, errors, and warnings as data.

An exception that crosses reticulate keeps only its text in reticulate 1.28, and its class names from 1.30 on;
neither keeps its fields. So R gets the outcome as data and raises the error itself. ``KeyboardInterrupt`` and
exceptions that tfmuster does not raise deliberately pass through unchanged.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import tfmuster

from .. import __version__
from ..errors import DependencyError, TfmusterError, TfmusterWarning
from ..system.interpreter import python_executable
from ..system.terminal_text import safe_text
from ..words import speaking
from ..worker.reticulate import held_back
from .session import guard_r_functions

__all__ = [
    "__version__",
    "adopt_environment",
    "keep_temporary_files_in",
    "missing_modules",
    "outcome",
    "resolve",
]

#: Modules that ``install_tfmuster()`` in R installs if they are missing.
REQUIRED_MODULES = ("click", "keras", "numpy", "orjson", "psutil", "rich", "tensorflow", "yaml")
_HOW_TO_INSTALL = (
    "Run tfmuster::install_tfmuster(), or set the environment variable RETICULATE_PYTHON to another Python; "
    "then restart R, and try again."
)
#: As long as the variable is set, no environment that is installed would be used.
_HOW_TO_CHOOSE = (
    "The environment variable RETICULATE_PYTHON has chosen this Python. Set it to another, or unset it and "
    "run tfmuster::install_tfmuster(); then restart R, and try again."
)

#: Names that only R calls, with their modules.
_FOR_R = {
    name: module
    for module, names in {
        "diagnostics.selftest": ("job", "verdict"),
        "keras_compat.data.python_data": ("Calls",),
        "launcher.remote.files": ("place_of",),
        "launcher.command": ("command_name",),
        "launcher.warm": ("warm_workers",),
        "r.calls": (
            *("any_values", "call_method", "check_optimizer", "columns_of", "condition_bytes"),
            *("failure_texts", "launch_shown", "ready_for_generators", "selftest_shown", "table_of"),
            "where_text",
        ),
        "rendezvous.task.join": ("report_end", "report_exit"),
        "strategies.by_name": ("check_name",),
        "tracking.lifecycle.beginning": ("claim_call", "claim_run_dir"),
        "tracking.record.layout": ("sha256_of",),
        "tracking.show.listing": ("ended_before", "find_run", "run_paths"),
        "tracking.show.summary": ("glance_row", "last_epoch", "summary", "task_rows"),
        "tracking.show.tail": ("Tail", "log_lines"),
        "tracking.show.tensorboard": ("start_tensorboard",),
        "tracking.values": ("check_r_result", "check_returned"),
        "worker.joining_r": ("join_from_r",),
        "training.values": ("begin_chief_first", "end_chief_first", "share_file"),
    }.items()
    for name in names
}
#: Calls during which R's load hooks must wait, because they would start TensorFlow too early.
_MAKE_STRATEGIES = ("strategy", "train_mnist")

guard_r_functions()


def outcome(target: str, /, *args: object, **kwargs: object) -> dict[str, Any]:
    """Call a function of the package, and return its outcome.

    `target` is a name in tfmuster or `_FOR_R`, such as ``"Cluster.task"`` or ``"find_run"``. The outcome is a
    dict with ``value`` (None after an error), ``error`` (None, or :meth:`TfmusterError.to_dict`) and
    ``warnings`` (the texts of the package's own warnings). R prints the texts, so they have nothing that
    would change a terminal.
    """
    own_warnings: list[str] = []
    result: dict[str, Any] = {"value": None, "error": None, "warnings": own_warnings}
    with warnings.catch_warnings():
        warnings.simplefilter("always", TfmusterWarning)
        show_others = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, TfmusterWarning):
                own_warnings.append(safe_text(str(message)))
            else:
                show_others(message, category, *where, **more)

        warnings.showwarning = collect
        try:
            hooks = held_back() if target in _MAKE_STRATEGIES else contextlib.nullcontext()
            with speaking("r"), hooks:
                result["value"] = _for_r(resolve(target)(*args, **kwargs))
        except (TfmusterError, ModuleNotFoundError) as error:
            result["error"] = _as_data(error)
    return result


def _as_data(error: TfmusterError | ModuleNotFoundError) -> dict[str, Any]:
    """Return an error as data, and raise again that a module of the program is missing."""
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name not in REQUIRED_MODULES:
            raise error
        error = DependencyError(
            f"tfmuster needs the Python package {name}.",
            found=f"it is not installed for {python_executable()}",
            package=name,
        )
    data = error.to_dict()
    if isinstance(error, DependencyError) and error.fields.get("package") in REQUIRED_MODULES:
        data["fix"] = _HOW_TO_CHOOSE if os.environ.get("RETICULATE_PYTHON") else _HOW_TO_INSTALL
    texts = {name: data[name] for name in ("message", "found", "fix")}
    return data | {name: text and safe_text(str(text)) for name, text in texts.items()}


def missing_modules(names: Iterable[str] = REQUIRED_MODULES) -> list[str]:
    """Return the names of modules that can't be imported here, without importing any of them."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def adopt_environment(values: Mapping[str, str | None], *, whole: bool = False) -> None:
    """Copy R's environment variables to ``os.environ``; None removes a variable.

    With `whole`, `values` are all of R's variables, and any other variable is removed.

    R's ``Sys.setenv`` changes the environment of the process, but ``os.environ`` is a copy from the start of
    Python: without this call, TensorFlow does not see a later ``Sys.setenv(TF_CONFIG = ...)``.
    """
    if whole:
        values = {**dict.fromkeys(os.environ), **values}
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value


def keep_temporary_files_in(folder: str) -> None:
    """Create Python's temporary files in R's temporary folder, unless ``tempfile.tempdir`` is set."""
    if tempfile.tempdir is None:
        tempfile.tempdir = folder


def resolve(target: str) -> Any:
    """Return the object that R calls by a name; see `outcome` for the names."""
    name, _, attributes = target.partition(".")
    module = {**tfmuster.MODULE_OF, **_FOR_R}.get(name)
    if module is None:
        raise AttributeError(f"R calls {name}, which tfmuster does not have")
    tfmuster._watch_worker(name)
    value = getattr(importlib.import_module(f"tfmuster.{module}"), name)
    for attribute in filter(None, attributes.split(".")):
        value = getattr(value, attribute)
    return value


def _for_r(value: object) -> object:
    """Return a type that every version of reticulate converts: only a bytearray becomes a raw vector."""
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value
