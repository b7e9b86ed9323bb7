"""Prepare every Python of a worker, including the one inside R: launchers put this folder on PYTHONPATH.

This module installs hooks for the import of TensorFlow, Keras, or JAX, and of random number generators,
which get the job's seed, and for uncaught exceptions. Then it loads the `sitecustomize`
that Python would have loaded without it. It prints nothing, because reticulate parses the output of the
Pythons it starts, and imports only modules that Python has already loaded.
"""

import os
import sys

TYPE_CHECKING = False  # importing it from typing would load that module
if TYPE_CHECKING:
    from typing import Any


class _BeforeTensorFlow:
    """A finder that installs tfmuster's import hook on the first search for TensorFlow, Keras, or JAX."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in ("tensorflow", "keras", "tf_keras", "jax"):
            return None
        sys.meta_path.remove(self)
        import importlib.util

        _install_import_hook()
        return importlib.util.find_spec(name)


class _SeedOnImport:
    """A finder that seeds Python's and NumPy's random number generators when their modules are imported."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._waiting = {"random", "numpy.random"}
        self._looking = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if self._looking or name not in self._waiting:
            return None
        import importlib.util

        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: "Any") -> None:
            execute(module)
            if module.__name__ == name and name in self._waiting:
                self._waiting.remove(name)
                _seed(name, self._seed)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _seed(module: str, seed: int) -> None:
    """Seed the global generator of an imported module, and those that it makes without a seed."""
    sys.modules[module].seed(seed)
    _tfmuster()
    from tfmuster.system.unseeded import seed_unseeded

    seed_unseeded(seed, module)


def _seed_this_process() -> None:
    """Seed the generators that are imported already, and the others when they are."""
    seed = os.environ.get("TFMUSTER_SEED", "")
    if not seed.isdigit():
        return
    finder = _SeedOnImport(int(seed))
    for name in [name for name in finder._waiting if name in sys.modules]:
        finder._waiting.remove(name)
        _seed(name, int(seed))
    sys.meta_path.insert(0, finder)


def _tfmuster() -> None:
    """Make tfmuster importable in a Python without it, but not the packages installed next to it."""
    import importlib.util

    if importlib.util.find_spec("tfmuster") is None:
        package = os.path.dirname(os.path.dirname(_HERE))
        spec = importlib.util.spec_from_file_location(
            "tfmuster", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["tfmuster"] = module
        spec.loader.exec_module(module)


def _note_exception(kind: "type[BaseException]", value: BaseException, trace: "Any") -> None:
    """Write the exception and its time to a file now: TensorFlow can delay Python's exit by many seconds."""
    try:
        if not issubclass(kind, KeyboardInterrupt):
            _tfmuster()
            from tfmuster.tracking.failure.error_file import leave_note

            leave_note(value)
    except Exception:
        # A failure here must not hide the exception itself.
        pass
    sys.__excepthook__(kind, value, trace)


def _prepare() -> None:
    """Install the hooks of a worker."""
    if "tensorflow" in sys.modules:
        # The process has waited for work.
        _install_import_hook()
    else:
        sys.meta_path.insert(0, _BeforeTensorFlow())
    # A Python that a worker starts is not the worker. The Python inside R has R's process id.
    if _is_worker():
        _seed_this_process()
    if "TFMUSTER_ERROR_FILE" in os.environ:
        sys.excepthook = _note_exception
    # Unbuffered, print("loss:", loss) is written in four pieces, with TensorFlow's messages between them.
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _install_import_hook() -> None:
    _tfmuster()
    from tfmuster.worker.import_hook import install_import_hook

    install_import_hook(keras=os.environ.get("TFMUSTER_KERAS_COMPAT") != "0")


def _is_worker() -> bool:
    return os.environ.setdefault("TFMUSTER_PROCESS", str(os.getpid())) == str(os.getpid())


_HERE = os.path.dirname(os.path.abspath(__file__))
_warm = os.environ.pop("TFMUSTER_WARM", "")
if "TFMUSTER_JOB" in os.environ:
    _prepare()
# Put the folder back on the path afterwards: the Python inside R gets its path from another Python.
_path = sys.path[:]
sys.path[:] = [entry for entry in _path if os.path.abspath(entry) != _HERE]
_this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the one that this module hides
except ImportError as error:
    if error.name != "sitecustomize":
        raise
finally:
    sys.path[:] = [entry for entry in _path if os.path.abspath(entry) == _HERE] + sys.path
    sys.modules.setdefault("sitecustomize", _this)
if _warm and _is_worker():
    # As the last thing, so that it imports with what the other `sitecustomize` has set up.
    _tfmuster()
    from tfmuster.worker import warm

    if _warm == "R":
        warm.keep_for_r(_prepare)
    else:
        warm.wait_for_work(_prepare)
