"""Save models to files and convert them to bytes.

With several workers, all of them call :func:`save_model` and only the chief writes. A file appears under its
final name only when it is complete, so a reader never sees a partial model.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..cluster.tf_config import folder_without_run
from ..environment import CHECKPOINT_DIR_VARIABLE, RUN_DIR_VARIABLE
from ..errors import ModelError
from ..keras_compat.process import is_chief
from ..keras_compat.saving import forget_copy, saved_everywhere
from ..system.replace import replacing_path
from ..system.tensorflow_import import import_tensorflow
from ..words import Code, Value, Words
from .model_checks import LOAD_UNSAFELY, check_model

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

#: File of a run's model in its run directory.
MODEL_FILE = "model.keras"

#: Suffixes of each format of a file.
_SUFFIXES = {".keras": (".keras",), ".h5": (".h5", ".hdf5")}

# First bytes of a Keras archive (a zip file) and of an HDF5 file.
_MAGIC = {".keras": b"PK\x03\x04", ".h5": b"\x89HDF\r\n\x1a\n"}


def save_model(
    model: keras.Model,
    path: str | Path | None = None,
    *,
    strategy: tf.distribute.Strategy | None = None,
) -> Path | None:
    """Save a model. Call it on every worker; only the chief writes the file.

    Parameters
    ----------
    model : keras.Model
        A model made under any strategy or none. The file loads in plain Keras.
    path : str or Path, optional
        Path that ends in ``.keras``, ``.h5``, or ``.hdf5``; without a suffix, a SavedModel folder for
        serving. An existing model there is replaced. Default: ``model.keras`` in the run directory of the
        job, where ``Run.model()`` looks; without a launcher, in ``TFMUSTER_CHECKPOINT_DIR`` or beside the
        script.
    strategy : tf.distribute.Strategy, optional
        Strategy that decides which worker is the chief. Default: the model's own.

    Returns
    -------
    Path or None
        The absolute path on the chief, ``None`` on the other workers.

    Raises
    ------
    ModelError
        The suffix is unknown, the path can't be written, or there is no path and no job (fields ``reason``,
        ``path``).
    """
    target = _target(_path_in_run() if path is None else path)
    if strategy is None:
        strategy = getattr(model, "distribute_strategy", None)
    if not is_chief(strategy):
        forget_copy(target)
        # Reading such variables is collective: without the other workers the chief would hang.
        if _reads_from_all_workers(model):
            with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
                _write(model, Path(scratch) / target.name)
        return None
    with _replacing(target) as part:
        _write(model, part)
    return target


def check_target(path: str | Path, *, what: str = "model") -> None:
    """Raise the ModelError now that :func:`save_model` would raise after the training.

    With another ``what``, the name of what is to be written, the path is that of any file.
    """
    target = _target(path) if what == "model" else Path(path).expanduser().absolute()
    try:
        if target.is_dir() and not target.is_symlink():
            if what != "model" or target.suffix:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            _refuse_other_folder(target)
        folder = next(parent for parent in target.parents if parent.exists())
        with tempfile.TemporaryFile(prefix=".tfmuster-", dir=folder):
            pass
    except OSError as error:
        raise _not_writable(target, error, what) from error


def _target(path: str | Path) -> Path:
    """Return the absolute path of a model, whose suffix must be that of a format."""
    target = Path(path).expanduser().absolute()
    if target.suffix and not any(target.suffix.lower() in suffixes for suffixes in _SUFFIXES.values()):
        raise ModelError(
            "A model is saved as .keras, as .h5, or as a SavedModel folder.",
            found=str(target),
            fix="end the path in .keras or .h5, or in neither for a SavedModel folder",
            reason="format",
            path=str(target),
        )
    return target


def _not_writable(target: Path, error: OSError, what: str = "model") -> ModelError:
    return ModelError(
        "The model can't be written there.".replace("model", what),
        found=f"{target}: {error.strerror or error}",
        fix="pass a path in a folder that can be written",
        reason="path",
        path=str(target),
    )


def _path_in_run() -> Path:
    run = os.environ.get(RUN_DIR_VARIABLE) or os.environ.get(CHECKPOINT_DIR_VARIABLE) or folder_without_run()
    if run is None:
        raise ModelError(
            Words("Outside of a job, {} needs a path.", Code("save_model", "model_to_file")),
            fix=Words(
                "{}, or run the program with `{}`",
                Code('save_model(model, "model.keras")', 'model_to_file(model, "model.keras")'),
                Code("tfmuster launch", "launch()", "tfmuster launch"),
            ),
            reason="no-path",
            path=None,
        )
    return Path(run, MODEL_FILE)


def model_to_bytes(model: keras.Model, format: str = ".keras") -> bytes:
    """Return a model as the bytes of a ``.keras`` or ``.h5`` file, for example to send it to your session.

    With several workers, call it on all of them; each gets the bytes.

    Parameters
    ----------
    model : keras.Model
        Any model that Keras can save.
    format : {".keras", ".h5"}
        Keras's own format, or HDF5.

    Returns
    -------
    bytes

    Raises
    ------
    ModelError
        The format is neither of the two (reason ``format``).
    """
    if format not in _MAGIC:
        raise ModelError(
            'The format of a model in bytes is ".keras" or ".h5".', found=str(Value(format)), reason="format"
        )
    with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
        path = Path(scratch) / f"model{format}"
        with saved_everywhere():
            _write(model, path)
        return path.read_bytes()


def model_from_bytes(data: bytes | bytearray | memoryview | str) -> keras.Model:
    """Load a model from the bytes of :func:`model_to_bytes`, or from base64 text of them.

    No code of the model runs, and Keras loads it in safe mode. Its configuration may name Keras's own classes
    and those that this session has registered, and may not read other files. What it unpacks to is limited by
    ``TFMUSTER_UNPACKED_GB``.

    Parameters
    ----------
    data : bytes or str
        The bytes of a ``.keras`` or ``.h5`` file, or base64 text of them, with or without line breaks.

    Returns
    -------
    keras.Model

    Raises
    ------
    ModelError
        The data is not base64, not a model, damaged, unsafe, or too large (field ``reason``).
    """
    tf = import_tensorflow()
    raw, suffix = _raw(data)
    with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
        path = Path(scratch) / f"model{suffix}"
        path.write_bytes(raw)
        try:
            check_model(raw, suffix)
            return tf.keras.models.load_model(path, safe_mode=True)
        except ModelError:
            raise
        except Exception as error:
            # Keras reports a damaged file with whatever exception its parser raises.
            unsafe = "safe_mode" in str(error) or "unsafe" in str(error).lower()
            raise ModelError(
                "These bytes must be a model that plain Keras loads in safe mode.",
                found=str(error).strip().partition("\n")[0][:300],
                fix=Words("load it with {} only if you trust its origin", LOAD_UNSAFELY)
                if unsafe
                else "send the model again; the bytes are damaged",
                reason="unsafe" if unsafe else "damaged",
            ) from error


def model_from_file(path: Path) -> keras.Model:
    """Load a ``.keras`` file as :func:`model_from_bytes` does. An HDF5 file of that name is refused."""
    raw = path.read_bytes()
    if not raw.startswith(_MAGIC[".keras"]):
        raise ModelError(
            "A .keras file must be a Keras archive.",
            found=Words("{} begins with {}", path, Value(raw[:8])),
            fix=Words("save the model again: {}", Code("tfmuster.save_model(model)", "model_to_file(model)")),
            reason="not-a-model",
        )
    return model_from_bytes(raw)


def _write(model: keras.Model, path: Path) -> None:
    if path.suffix:
        model.save(path)
        return
    # Keras prints a page about the endpoints, which would hide the training output.
    with contextlib.redirect_stdout(io.StringIO()):
        model.export(str(path))


def _reads_from_all_workers(model: keras.Model) -> bool:
    """Return whether a variable to save has one value per replica and is reduced when read."""
    import tensorflow as tf

    optimizer = getattr(model, "optimizer", None)
    # In tf-keras 2, optimizer.variables is a method.
    of_optimizer = getattr(optimizer, "variables", ())
    variables = [*model.variables, *(of_optimizer() if callable(of_optimizer) else of_optimizer)]
    return any(
        getattr(getattr(variable, "value", variable), "synchronization", None)
        == tf.VariableSynchronization.ON_READ
        for variable in variables
    )


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``target``; replace ``target`` with it if the block succeeds."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing_path(target) as part:
            yield part
            if target.is_dir() and not target.is_symlink():
                _refuse_other_folder(target)
    except OSError as error:
        raise _not_writable(target, error) from error


def _refuse_other_folder(target: Path) -> None:
    if not (target / "saved_model.pb").exists() and any(target.iterdir()):
        raise ModelError(
            "A SavedModel can replace only an empty folder or another SavedModel.",
            found=f"{target} holds something else",
            fix="pass another path",
            reason="path",
            path=str(target),
        )


def _raw(data: bytes | bytearray | memoryview | str) -> tuple[bytes, str]:
    """Return the bytes of a model, and the suffix of their format."""
    try:
        raw = base64.b64decode("".join(data.split()), validate=True) if isinstance(data, str) else bytes(data)
    except (binascii.Error, ValueError) as error:
        raise ModelError(
            "Text must be base64 of a model's bytes.",
            found=Words("{}: {}", Value(data[:40]), error),
            fix=Words(
                "pass the bytes, or base64 text of them; to load a file, use {}",
                Code("keras.models.load_model", "keras3::load_model()"),
            ),
            reason="not-base64",
        ) from error
    for suffix, magic in _MAGIC.items():
        if raw.startswith(magic):
            return raw, suffix
    raise ModelError(
        "The bytes must be those of a .keras or .h5 file.",
        found=Words("{} bytes that begin with {}", len(raw), Value(raw[:8])),
        fix="make them with model_to_bytes(model)",
        reason="not-a-model",
    )
