"""Models as files and as bytes.

Under several workers all of them call :func:`save_model` alike and only the chief writes. Whatever is written
appears under its final name at once, so that a reader never meets half a model.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..system.replace import replacing_path
from ..system.tensorflow_import import import_tensorflow
from .files import saved_everywhere
from .strategy_info import is_chief

_H5 = (".h5", ".hdf5")
_FIX_SUFFIX = "end the path in .keras or .h5, or in neither for a SavedModel folder"
# How a Keras archive (a zip file) and an HDF5 file begin.
_MAGIC = {".keras": b"PK\x03\x04", ".h5": b"\x89HDF\r\n\x1a\n"}


def save_model(model: Any, path: str | Path, *, strategy: Any = None) -> Path | None:
    """Save a model; every worker calls this alike, and the chief writes.

    Parameters
    ----------
    model : keras.Model
        Made under any strategy or none; the file loads in plain Keras.
    path : str or Path
        ``.keras``, ``.h5`` (or ``.hdf5``), or no suffix: a SavedModel folder for serving. What is there is
        replaced.
    strategy : tf.distribute.Strategy, optional
        Default: the one that the model was made under.

    Returns
    -------
    Path or None
        The absolute path on the chief, ``None`` on the other workers.

    Raises
    ------
    ModelError
        An unknown suffix, or a path that can't be written (fields ``reason``, ``path``).
    """
    target = Path(path).expanduser().absolute()
    suffix = target.suffix.lower()
    if suffix and suffix != ".keras" and suffix not in _H5:
        raise ModelError(
            "A model is saved as .keras, as .h5, or as a SavedModel folder.",
            found=str(target),
            fix=_FIX_SUFFIX,
            reason="format",
            path=str(target),
        )
    if strategy is None:
        strategy = getattr(model, "distribute_strategy", None)
    if not is_chief(strategy):
        # Reading such variables is a collective operation: the chief would wait for the others for ever.
        if _reads_from_all_workers(model):
            with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
                _write(model, Path(scratch) / target.name)
        return None
    with _replacing(target) as part:
        _write(model, part)
    return target


def model_to_bytes(model: Any, format: str = ".keras") -> bytes:
    """The model as the bytes of a ``.keras`` or ``.h5`` file, to send from a worker to the user's session.

    On several workers all of them call it, and each gets the bytes.

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
        Another format (reason ``format``).
    """
    if format not in _MAGIC:
        raise ModelError(
            'The format of a model in bytes is ".keras" or ".h5".', found=repr(format), reason="format"
        )
    with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
        path = Path(scratch) / f"model{format}"
        with saved_everywhere():
            _write(model, path)
        return path.read_bytes()


def model_from_bytes(data: bytes | bytearray | memoryview | str) -> Any:
    """The model that :func:`model_to_bytes` made bytes of, or its base64 text.

    Loaded in Keras's safe mode: a model that carries code of its own (a Lambda layer) is refused.

    Parameters
    ----------
    data : bytes or str
        The bytes of a ``.keras`` or ``.h5`` file, or base64 text of them (line breaks are fine).

    Returns
    -------
    keras.Model

    Raises
    ------
    ModelError
        Not base64, not a model, damaged, or unsafe (field ``reason``).
    """
    tf = import_tensorflow()
    raw = _raw(data)
    suffix = _suffix_of(raw)
    with tempfile.TemporaryDirectory(prefix="tfmuster-") as scratch:
        path = Path(scratch) / f"model{suffix}"
        path.write_bytes(raw)
        try:
            if suffix == ".h5":
                _refuse_code_in_h5(path)
            return tf.keras.models.load_model(path, safe_mode=True)
        except ModelError:
            raise
        except Exception as error:
            # Keras reports a damaged file by whatever exception its parsing ran into.
            unsafe = "safe_mode" in str(error) or "unsafe" in str(error).lower()
            raise ModelError(
                "These bytes must be a model that plain Keras loads in safe mode.",
                found=str(error).strip().partition("\n")[0][:300],
                fix="load it with keras.models.load_model(..., safe_mode=False) only if you trust its origin"
                if unsafe
                else "send the model again; the bytes are damaged",
                reason="unsafe" if unsafe else "damaged",
            ) from error


def save_model_file(data: bytes | bytearray | memoryview | str, path: str | Path) -> Path:
    """Write the bytes of a model (or their base64 text) to a file that Keras loads.

    Parameters
    ----------
    data : bytes or str
        As for :func:`model_from_bytes`. The model is not loaded.
    path : str or Path
        Must end in the suffix of the format that the bytes have, since Keras goes by the suffix.

    Returns
    -------
    Path
        The absolute path.

    Raises
    ------
    ModelError
        Not a model, the wrong suffix, or a path that can't be written (fields ``reason``, ``path``).
    """
    raw = _raw(data)
    target = Path(path).expanduser().absolute()
    suffix = _suffix_of(raw)
    if target.suffix.lower() not in ((".keras",) if suffix == ".keras" else _H5):
        raise ModelError(
            f"The bytes are a {suffix} file, and Keras goes by the suffix.",
            found=str(target),
            fix=f"pass a path that ends in {suffix}",
            reason="format",
            path=str(target),
        )
    with _replacing(target) as part:
        part.write_bytes(raw)
    return target


def _write(model: Any, path: Path) -> None:
    if path.suffix:
        model.save(path)
        return
    # Keras prints a page about the endpoints; a training's output has no room for it.
    with contextlib.redirect_stdout(io.StringIO()):
        model.export(str(path))


def _reads_from_all_workers(model: Any) -> bool:
    """Whether a variable that is saved is kept apart on each replica and reduced when it is read."""
    import tensorflow as tf

    optimizer = getattr(model, "optimizer", None)
    # tf-keras 2: optimizer.variables is a method there.
    own = getattr(optimizer, "variables", ())
    variables = [*model.variables, *(own() if callable(own) else own)]
    return any(
        getattr(getattr(variable, "value", variable), "synchronization", None)
        == tf.VariableSynchronization.ON_READ
        for variable in variables
    )


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A path beside ``target`` to write to; it takes the place of ``target`` when all went well."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing_path(target) as part:
            yield part
            if target.is_dir() and not target.is_symlink():
                _refuse_other_folder(target)
    except OSError as error:
        raise ModelError(
            "The model can't be written there.",
            found=f"{target}: {error}",
            fix="pass a path in a folder that can be written",
            reason="path",
            path=str(target),
        ) from error


def _refuse_other_folder(target: Path) -> None:
    if not (target / "saved_model.pb").exists() and any(target.iterdir()):
        raise ModelError(
            "Only a SavedModel folder is replaced by a SavedModel.",
            found=f"{target} holds something else",
            fix="pass another path",
            reason="path",
            path=str(target),
        )


def _raw(data: bytes | bytearray | memoryview | str) -> bytes:
    if not isinstance(data, str):
        return bytes(data)
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ModelError(
            "Text must be base64 of a model's bytes.",
            found=f"{data[:40]!r}: {error}",
            fix="pass the bytes, or base64 text of them; to load a file, use keras.models.load_model",
            reason="not-base64",
        ) from error


def _suffix_of(raw: bytes) -> str:
    for suffix, magic in _MAGIC.items():
        if raw.startswith(magic):
            return suffix
    raise ModelError(
        "The bytes must be those of a .keras or .h5 file.",
        found=f"{len(raw)} bytes that begin with {raw[:8]!r}",
        fix="make them with model_to_bytes(model)",
        reason="not-a-model",
    )


def _refuse_code_in_h5(path: Path) -> None:
    """Keras before 3.11.3 runs the code in an HDF5 file even in safe mode (CVE-2025-9905)."""
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "r") as file:
        config = file.attrs.get("model_config", "")
    text = config.decode("utf-8", "replace") if isinstance(config, bytes) else str(config)
    if '"Lambda"' in text or '"__lambda__"' in text:
        raise ModelError(
            "A model in bytes must not carry code of its own.",
            found="a Lambda layer",
            fix="load it with keras.models.load_model(..., safe_mode=False) only if you trust its origin",
            reason="unsafe",
        )
