"""What the R package calls: a function's outcome as data, errors and warnings included.

An exception that crosses reticulate keeps only its text in reticulate 1.28, and its class names from 1.30 on;
neither keeps its fields. So R asks for the outcome instead, and raises the error itself.
Exceptions that tfmuster does not raise on purpose, and ``KeyboardInterrupt``, pass through untouched.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tfmuster

from .. import __version__
from ..errors import DependencyError, TfmusterError, TfmusterWarning
from ..system.interpreter import python_executable
from ..worker.error_file import leave_r_note
from .session import guard_r_functions, postponed_load_hooks

if TYPE_CHECKING:
    from ..runs.run import Run

__all__ = [
    "__version__",
    "adopt_environment",
    "keep_temporary_files_in",
    "launch_shown",
    "leave_r_note",
    "missing_modules",
    "outcome",
    "resolve",
]

#: Modules whose absence ``install_tfmuster()`` in R mends.
REQUIRED_MODULES = ("click", "keras", "numpy", "orjson", "psutil", "rich", "tensorflow", "yaml")
_HOW_TO_INSTALL = "Run tfmuster::install_tfmuster(), restart R, and try again."

#: What only R calls, by name, and the module that has it.
_FOR_R = {
    "doctor": "diagnostics.doctor",
    "selftest": "diagnostics.selftest",
    "verdict": "diagnostics.selftest",
    "launch_shown": "r.bridge",
    "report_end": "rendezvous.join",
    "new_run_path": "runs.lifecycle",
    "summary": "runs.listing",
    "find_run": "runs.listing",
    "last_epoch": "runs.listing",
    "run_table": "runs.listing",
    "write_report": "runs.report",
    "Tail": "runs.tail",
    "log_lines": "runs.tail",
    "start_tensorboard": "runs.tensorboard",
    "tensorboard_callback": "runs.tensorboard",
    "check_name": "strategies.by_name",
    "job": "diagnostics.selftest",
    "leave_r_note": "worker.error_file",
}
#: Calls after which TensorFlow's context must not have been initialised by a load hook of R.
_MAKE_STRATEGIES = ("strategy", "train_mnist")

guard_r_functions()


def outcome(target: str, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call a function of the package and tell what came of it.

    Parameters
    ----------
    target : str
        What tfmuster or `_FOR_R` has by that name: ``"tf_config_json"``, ``"Cluster.task"``, ``"find_run"``.
    *args, **kwargs
        Passed on.

    Returns
    -------
    dict
        ``value`` (what the function returned; None after an error), ``error`` (None, or
        :meth:`TfmusterError.to_dict`) and ``warnings`` (the texts of the package's own warnings).
    """
    own_warnings: list[str] = []
    result: dict[str, Any] = {"value": None, "error": None, "warnings": own_warnings}
    with warnings.catch_warnings():
        warnings.simplefilter("always", TfmusterWarning)
        show_others = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, TfmusterWarning):
                own_warnings.append(str(message))
            else:
                show_others(message, category, *where, **more)

        warnings.showwarning = collect
        try:
            with postponed_load_hooks() if target in _MAKE_STRATEGIES else contextlib.nullcontext():
                result["value"] = _for_r(resolve(target)(*args, **kwargs))
        except DependencyError as error:
            result["error"] = error.to_dict()
            if error.fields.get("package") in REQUIRED_MODULES:
                result["error"]["fix"] = _HOW_TO_INSTALL
        except TfmusterError as error:
            result["error"] = error.to_dict()
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            if name not in REQUIRED_MODULES:
                raise
            result["error"] = DependencyError(
                f"The Python package {name} is needed.",
                found=f"it is not installed for {python_executable()}",
                fix=_HOW_TO_INSTALL,
                package=name,
            ).to_dict()
    return result


def missing_modules(names: Iterable[str] = REQUIRED_MODULES) -> list[str]:
    """Return those of ``names`` that can't be imported here, without importing any of them."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def adopt_environment(values: Mapping[str, str | None], *, whole: bool = False) -> None:
    """Make ``os.environ`` agree with R's environment variables; None removes a variable.

    With `whole`, `values` are all of R's, so that those which are not there are removed.

    R's ``Sys.setenv`` changes the process's environment, of which ``os.environ`` is a copy taken when
    Python started: without this a later ``Sys.setenv(TF_CONFIG = ...)`` is not seen by TensorFlow.
    """
    if whole:
        values = {**dict.fromkeys(os.environ), **values}
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value


def keep_temporary_files_in(folder: str) -> None:
    """Have Python's temporary files made in R's folder for them, unless somebody has chosen already."""
    if tempfile.tempdir is None:
        tempfile.tempdir = folder


def launch_shown(
    say: Callable[[str], object],
    glance: Callable[[Mapping[str, Any]], object],
    /,
    *args: Any,
    **kwargs: Any,
) -> Run:
    """Launch, with the job shown by R's functions; see :class:`tfmuster.launch.supervise.display.Foreign`."""
    from ..launch import launch
    from ..launch.supervise.display import shown_by

    with shown_by(say, glance):
        run: Run = launch(*args, **kwargs)
        return run


def resolve(target: str) -> Any:
    """What R means by a name; `outcome` says which names there are."""
    name, _, attributes = target.partition(".")
    module = {**tfmuster.MODULE_OF, **_FOR_R}.get(name)
    if module is None:
        raise AttributeError(f"R calls {name}, which tfmuster does not have")
    value = getattr(importlib.import_module(f"tfmuster.{module}"), name)
    for attribute in filter(None, attributes.split(".")):
        value = getattr(value, attribute)
    return value


def _for_r(value: Any) -> Any:
    """Give R a type that every version of reticulate converts: bytes only become raw as a bytearray."""
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value
