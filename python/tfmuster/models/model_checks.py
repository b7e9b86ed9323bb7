"""Check the bytes of a model before Keras loads them.

Keras's safe mode has had holes: an HDF5 file's Lambda layer ran in Keras before 3.11.3 and runs in tf-keras
(CVE-2025-9905), a ``.keras`` file could name any function of Keras (CVE-2025-8747), and tf-keras imports any
module that a file names. So tfmuster reads the configuration itself, whatever the version: it may name the
classes of Keras, and what this session has registered.
"""

from __future__ import annotations

import builtins
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from ..environment import UNPACKED_GB_VARIABLE
from ..errors import ModelError
from ..system.archives import TooLargeError, check_size, check_zip
from ..words import Code, Words

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped]

#: Parts of Keras whose classes a model may consist of.
_CLASSES = {
    *("layers", "models", "optimizers", "losses", "metrics", "initializers", "regularizers", "constraints"),
    *("activations", "ops", "dtype_policies", "random", "quantizers", "mixed_precision", "engine", "backend"),
}

#: Parts of Keras whose functions a model may name.
_FUNCTIONS = {"activations", "losses", "metrics", "initializers", "regularizers", "constraints", "ops"}

#: Classes of Keras that run code of the file, or load other files.
_REFUSED = {
    "Lambda": "a Lambda layer",
    "__lambda__": "a Python function",
    "ClassMethod": "a method by its name",
    "TorchModuleWrapper": "a pickled PyTorch module",
    "TFSMLayer": "a SavedModel by its path",
    "JaxLayer": "a JAX function",
    "FlaxLayer": "a Flax module",
}

#: Weights of an archive in no HDF5 file. Keras writes pickled objects there, which it refuses to read again.
#: Of plain arrays it makes lists of Python's numbers, which take many times the memory that they declare.
_NUMPY_WEIGHTS = "model.weights.npz"

#: Layers that read a file if their vocabulary is a text.
_LOOKUPS = ("StringLookup", "IntegerLookup", "IndexLookup", "TextVectorization")

#: What tf-keras's layer of one TensorFlow function may call.
_TF_FUNCTIONS = re.compile(
    r"(math|nn|linalg|image|strings|signal|__operators__)\.\w+|cast|reshape|concat|stack|unstack|split|tile|"
    r"expand_dims|squeeze|transpose|identity|where|zeros_like|ones_like|gather|shape|slice|strided_slice|"
    r"reverse|pad|one_hot|clip_by_value|convert_to_tensor|broadcast_to|boolean_mask|matmul|einsum|abs|exp|"
    r"sqrt|square|tanh|sigmoid|reduce_\w+|add|subtract|multiply|divide|pow|maximum|minimum|argmax|argmin"
)


def check_model(raw: bytes, suffix: str) -> None:
    """Raise a ModelError if a model in bytes holds code, reads other files, or unpacks to too much.

    ``suffix`` is ``".keras"`` or ``".h5"``. The reason of the error is ``unsafe`` or ``large``.
    """
    try:
        if suffix == ".h5":
            _check_h5(raw, configured=True, size=len(raw))
        else:
            _check_archive(raw)
    except TooLargeError as error:
        raise ModelError(
            "A model must not unpack to more than its limit.",
            found=str(error),
            fix=f"If you trust the file, set {UNPACKED_GB_VARIABLE} to a larger number of GB.",
            reason="large",
        ) from None


def _check_archive(raw: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        check_zip(archive, len(raw))
        if _NUMPY_WEIGHTS in archive.namelist():
            raise _unsafe(f"weights as pickled objects ({_NUMPY_WEIGHTS})")
        _check_config(json.loads(archive.read("config.json")))
        for name in archive.namelist():
            if name.endswith(".h5"):
                _check_h5(archive.read(name), configured=False, size=len(raw))


def _check_h5(raw: bytes, *, configured: bool, size: int) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(io.BytesIO(raw), "r") as file:
        check_size(sum(_sizes(h5py, file)), size)
        for name in ("model_config", "training_config") if configured else ():
            config = file.attrs.get(name)
            if config is not None:
                _check_config(json.loads(config))


def _sizes(h5py: ModuleType, group: h5py.Group) -> Iterator[int]:
    """Yield the size of each array, and refuse what is in another file."""
    for name in group:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise _unsafe("a link to another file")
        if isinstance(link, h5py.SoftLink):
            # It leads to a place of this file, which is looked at by itself.
            continue
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _sizes(h5py, item)
        elif isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise _unsafe("data in another file")
            yield item.size * item.dtype.itemsize


def _check_config(config: object) -> None:
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            if "class_name" in value:
                _check_object(value)
            left += value.values()
        elif isinstance(value, list):
            left += value


def _check_object(described: Mapping[str, object]) -> None:
    name, module, config = (described.get(key) for key in ("class_name", "module", "config"))
    if not isinstance(name, str):
        raise _unsafe(f"a class named {name!r}")
    if name in _REFUSED:
        raise _unsafe(_REFUSED[name])
    settings = config if isinstance(config, Mapping) else {}
    if name in _LOOKUPS and isinstance(settings.get("vocabulary"), str):
        raise _unsafe(f"the vocabulary of {name} in another file")
    if name in ("TFOpLambda", "SlicingOpLambda"):
        function = str(settings.get("function"))
        if not _TF_FUNCTIONS.fullmatch(function):
            raise _unsafe(f"a call of tf.{function[:80]}")
    if module is None or _is_registered(described):
        # Keras looks for the name among its own classes and those of this session, and imports nothing.
        return
    is_function = name == "function"
    wanted = config if is_function else name
    if not (isinstance(wanted, str) and wanted.isidentifier() and _is_keras(module, wanted, is_function)):
        raise _unsafe(f"{module}.{wanted}"[:200])


def _is_keras(module: object, name: str, is_function: bool) -> bool:
    """Return whether a module is one of Keras with parts of models."""
    if module == "builtins":
        # Keras's own functions, and functions that this session has named for Keras.
        return is_function and not hasattr(builtins, name)
    package, *parts = str(module).split(".")
    if package not in ("keras", "tf_keras"):
        return False
    parts = parts[1:] if parts[:1] == ["src"] else parts
    if not parts:
        return not is_function
    return parts[0] in (_FUNCTIONS if is_function else _CLASSES)


def _is_registered(described: Mapping[str, object]) -> bool:
    """Return whether this session has registered the class, or offers it as a custom object."""
    from ..system.tensorflow_import import import_tensorflow

    keras = import_tensorflow().keras
    find = getattr(getattr(keras, "saving", None), "get_registered_object", None)
    find = find or keras.utils.get_registered_object
    names = (described.get("registered_name"), described.get("class_name"))
    return any(isinstance(name, str) and find(name) is not None for name in names)


#: How to load a model that may run code.
LOAD_UNSAFELY = Code(
    "keras.models.load_model(..., safe_mode=False)", "keras3::load_model(..., safe_mode = FALSE)"
)


def _unsafe(found: str) -> ModelError:
    return ModelError(
        "A model in bytes must not contain code.",
        found=found,
        fix=Words(
            "load it with {} only if you trust its origin; for a class of your own, call {} before",
            LOAD_UNSAFELY,
            Code("keras.saving.register_keras_serializable()", "keras3::register_keras_serializable()"),
        ),
        reason="unsafe",
    )
