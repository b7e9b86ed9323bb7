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
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tfmuster

from .. import __version__
from ..errors import DependencyError, TfmusterError, TfmusterWarning
from ..system.interpreter import python_executable
from ..system.say import heard_by
from ..system.say import say as tell
from ..system.terminal_text import safe_text
from ..words import speaking
from ..worker.load_hooks import held_back
from .session import guard_r_functions

if TYPE_CHECKING:
    from ..options.table import Place
    from ..tracking.run import Run

__all__ = [
    "__version__",
    "adopt_environment",
    "keep_temporary_files_in",
    "launch_shown",
    "missing_modules",
    "outcome",
    "resolve",
    "selftest_shown",
    "where_text",
]

#: Modules that ``install_tfmuster()`` in R installs if they are missing.
REQUIRED_MODULES = ("click", "keras", "numpy", "orjson", "psutil", "rich", "tensorflow", "yaml")
_HOW_TO_INSTALL = "Run tfmuster::install_tfmuster(), restart R, and try again."

#: Names that only R calls, with their modules.
_FOR_R = {
    "selftest_shown": "r.bridge",
    "verdict": "diagnostics.selftest",
    "place_of": "launcher.remote.files",
    "Calls": "keras_compat.data.python_data",
    "call_method": "r.keras_methods",
    "check_optimizer": "r.keras_methods",
    "columns_of": "r.keras_methods",
    "table_of": "r.keras_methods",
    "ready_for_generators": "r.keras_methods",
    "launch_shown": "r.bridge",
    "report_end": "rendezvous.task.join",
    "report_exit": "rendezvous.task.join",
    "sha256_of": "tracking.record.layout",
    "claim_call": "tracking.lifecycle.beginning",
    "claim_run_dir": "tracking.lifecycle.beginning",
    "command_name": "launcher.text_checks",
    "where_text": "r.bridge",
    "any_values": "r.bridge",
    "warm_workers": "launcher.warm",
    "check_r_result": "tracking.values.values",
    "check_returned": "tracking.values.values",
    "summary": "tracking.show.listing",
    "task_rows": "tracking.show.rows",
    "glance_row": "tracking.show.rows",
    "ended_before": "tracking.show.listing",
    "find_run": "tracking.show.listing",
    "last_epoch": "tracking.show.listing",
    "run_table": "tracking.show.listing",
    "Tail": "tracking.show.tail",
    "log_lines": "tracking.show.tail",
    "start_tensorboard": "tracking.show.tensorboard",
    "check_name": "strategies.by_name",
    "job": "diagnostics.selftest",
    "failure_texts": "r.failures",
    "condition_bytes": "r.failures",
}
#: Calls during which R's load hooks must wait, because they would start TensorFlow too early.
_MAKE_STRATEGIES = ("strategy", "train_mnist")

guard_r_functions()


def outcome(target: str, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call a function of the package, and return its outcome.

    Parameters
    ----------
    target : str
        A name in tfmuster or `_FOR_R`: ``"tf_config_json"``, ``"Cluster.task"``, ``"find_run"``.
    *args, **kwargs
        Arguments of the function.

    Returns
    -------
    dict
        ``value`` (what the function returned; None after an error), ``error`` (None, or
        :meth:`TfmusterError.to_dict`) and ``warnings`` (the texts of the package's own warnings). R prints
        the texts, so they have nothing that would change a terminal.
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
                f"tfmuster needs the Python package {name}.",
                found=f"it is not installed for {python_executable()}",
                fix=_HOW_TO_INSTALL,
                package=name,
            ).to_dict()
    if result["error"] is not None:
        texts = {name: result["error"][name] for name in ("message", "found", "fix")}
        result["error"] |= {name: text and safe_text(str(text)) for name, text in texts.items()}
    return result


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


def launch_shown(
    say: Callable[[str], object],
    glance: Callable[[Mapping[str, Any]], object],
    /,
    *args: Any,
    on: Mapping[str, Any],
    control: Mapping[str, Any],
    **kwargs: Any,
) -> Run:
    """Launch a job whose output R's functions show.

    Settings are dicts, of which those of ``on`` have the engine's name as ``backend``. See
    :class:`tfmuster.launcher.supervise.display.Foreign` for the functions.
    """
    from ..launcher import launch
    from ..launcher.supervise.display import shown_by, shown_path
    from ..options.table import Control

    begun = time.monotonic()
    with shown_by(say, glance), heard_by(say):
        run: Run = launch(*args, on=_place(on), control=Control(**control), **kwargs)
        if not kwargs.get("quiet"):
            waited = kwargs.get("wait", True)
            how = f" in {time.monotonic() - begun:.1f} s" if waited else f"; {shown_path(run)}"
            tell(f"tfmuster: {run.status()['state']}{how}")
        return run


def selftest_shown(show: Callable[[str], object], /, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Run the self-test, and pass what it does to a function of R."""
    with heard_by(show):
        report: dict[str, Any] = resolve("selftest")(*args, **kwargs, tell=True)
        return report


def where_text(on: Mapping[str, Any]) -> str:
    """Return the command that runs a script where these settings say, as a shell takes it."""
    import shlex

    from ..launcher.engines.registry import engine_for

    return shlex.join(["tfmuster", "launch", *engine_for(_place(on)).as_options(), "SCRIPT"])


def any_values(on: Mapping[str, Any]) -> bool:
    """Do what :func:`tfmuster.launcher.function.any_values` does."""
    from ..launcher.function import any_values

    return any_values(_place(on))


def _place(on: Mapping[str, Any]) -> Place:
    from ..launcher.engines.registry import place_for

    backend, settings = on["backend"], {name: value for name, value in on.items() if name != "backend"}
    return place_for(backend, settings)


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


def _for_r(value: Any) -> Any:
    """Return a type that every version of reticulate converts: only a bytearray becomes a raw vector."""
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value
