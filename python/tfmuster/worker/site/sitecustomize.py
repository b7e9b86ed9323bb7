"""Loaded by every Python of a worker, the one inside R too: launchers put this folder on PYTHONPATH.

It prints nothing (reticulate parses the output of the Pythons it starts) and imports nothing that Python has
not imported already: it sets two traps, for TensorFlow or Keras being imported and for an exception that
nobody catches, and then makes way for the `sitecustomize` that would have been loaded without it.
"""

import os
import sys

TYPE_CHECKING = False  # typing itself would have to be imported
if TYPE_CHECKING:
    from typing import Any


class _BeforeTensorFlow:
    """Finds nothing; when TensorFlow or Keras is first looked for, it puts tfmuster in the way."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in ("tensorflow", "keras"):
            return None
        sys.meta_path.remove(self)
        import importlib.util

        _tfmuster()
        from tfmuster.worker.import_hook import install_import_hook

        install_import_hook(keras=os.environ.get("TFMUSTER_KERAS_COMPAT") != "0")
        return importlib.util.find_spec(name)


def _tfmuster() -> None:
    """Make tfmuster importable in a Python that it is not installed in, without its neighbours."""
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
    """Write the exception and its time down at once: leaving Python may take TensorFlow many seconds."""
    try:
        if not issubclass(kind, KeyboardInterrupt):
            import json
            import time
            import traceback

            error = "".join(traceback.format_exception_only(kind, value)).strip()
            if issubclass(kind, SyntaxError):
                # Python begins with the place, and a headline has one line.
                error = f"{kind.__name__}: {value}"
            note = {
                "time": time.time(),
                "pid": os.getpid(),
                "error": error,
                "traceback": "".join(traceback.format_exception(kind, value, trace)),
            }
            path = os.environ["TFMUSTER_ERROR_FILE"]
            with open(path + ".part", "w", encoding="utf-8", errors="replace") as file:
                json.dump(note, file)
            os.replace(path + ".part", path)
    except Exception:
        # Whatever went wrong here, the exception itself has to be shown.
        pass
    sys.__excepthook__(kind, value, trace)


_HERE = os.path.dirname(os.path.abspath(__file__))
if "TFMUSTER_JOB" in os.environ:
    sys.meta_path.insert(0, _BeforeTensorFlow())
    if "TFMUSTER_ERROR_FILE" in os.environ:
        sys.excepthook = _note_exception
# The folder goes back on the path afterwards: reticulate gives the Python inside R the path that it has seen
# in another.
_path = sys.path[:]
sys.path[:] = [entry for entry in _path if os.path.abspath(entry) != _HERE]
_this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the one that this one has hidden
except ImportError as error:
    if error.name != "sitecustomize":
        raise
finally:
    sys.path[:] = [entry for entry in _path if os.path.abspath(entry) == _HERE] + sys.path
    sys.modules.setdefault("sitecustomize", _this)
