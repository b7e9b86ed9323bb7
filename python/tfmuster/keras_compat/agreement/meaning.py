"""What a call of ``fit``, ``evaluate``, or ``predict`` means, apart from its data, as a tree to compare.

Names and shapes do not tell what a model computes. So the tree has the configuration of each layer and of
what the model is compiled with, the arguments of the call, and the callbacks that change the training.
Functions, R's too, have no configuration: their code stands for them, with the constants, defaults and values
that it uses. Numbers that Keras adds to names are left out, and so are the places of files.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import os
import re
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from ...system.embedded_r import r_function
from ...system.user_code import is_library
from .. import seams
from .documents import Call, plain_name
from .samples import chain

if TYPE_CHECKING:
    import keras

#: A part of what a call means: parts by their names, or a value of JSON.
Tree = Any

#: Arguments of a call that are compared in another way, or that may differ.
_OTHER_ARGUMENTS: Final = ("self", "x", "y", "sample_weight", "validation_data", "callbacks", "verbose")
#: What a callback assigns to, or calls, if it changes the training.
_ASSIGNED: Final = {"learning_rate", "lr", "stop_training", "trainable"}
_CALLED: Final = {"set_weights", "load_weights", "assign", "assign_add", "assign_sub"}
#: The same in R, whose functions have names of their own.
_CHANGES_IN_R: Final = re.compile(
    rf"\$({'|'.join(_ASSIGNED)}) (<-|=) |\$({'|'.join(_CALLED)})\(|\b(set_weights|load_model_weights\w*)\("
)
#: Attributes of callbacks that may differ: their own, and places of files.
_LOCAL: Final = re.compile("^_|dir|path|file")
#: Keys of configurations that say nothing of the meaning.
_MEANINGLESS: Final = {"name", "shared_object_id", "build_config", "steps_per_execution"}
_COUNT: Final = "number of layers"
#: Parts within parts that are looked at, and bytes of an array of which all are.
_DEEPEST: Final = 8
_MOST_BYTES: Final = 1 << 20

#: What models mean as they are compiled, because each call would look at all their layers again.
_models: weakref.WeakKeyDictionary[Any, tuple[object, Tree]] = weakref.WeakKeyDictionary()


def meaning_of(call: Call) -> Tree:
    """Return what a call means."""
    arguments = {name: value for name, value in call.arguments.items() if name not in _OTHER_ARGUMENTS}
    return {
        **_model(call.model),
        "argument": _parts(arguments),
        "setting of Keras": _settings(),
        "data": _data(call),
        **_callbacks(call.arguments.get("callbacks")),
    }


def digest_of(tree: Tree) -> str:
    """Return a digest of a part, which begins with ``+`` if the part has parts."""
    content = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
    return ("+" if isinstance(tree, dict) and tree else "=") + hashlib.sha256(content).hexdigest()[:16]


def text_of(path: list[str], tree: Tree) -> str:
    """Return the place of a part in words: the keys that lead to it from the top of a tree."""
    if path[0] == "layers" and len(path) > 2:
        name = tree["layers"][path[1]]["name"]
        return ": ".join([f"layer {name} ({path[1].split()[-1]} of {tree['layers'][_COUNT]})", *path[2:]])
    return path[-1] if path[0] == "layers" else ": ".join(path)


def _data(call: Call) -> dict[str, Tree]:
    """Return the functions that make the rows which all workers read."""
    data = call.arguments.get("x")
    if call.document.get("whose rows") != "all workers'":
        return {}
    functions = [wrapper for step in chain(data) for wrapper in seams.FUNCTIONS.of(step)()]
    made = {
        f"function {number}": _described(seams.TRACED.of(wrapper))
        for number, wrapper in enumerate(reversed(functions), 1)
    }
    # Objects of the program may keep what is one worker's, such as a folder.
    return {**made, **_own_code(data, values=False)}


def _settings() -> dict[str, Tree]:
    """Return what ``keras.json`` or the program sets for all of Keras."""
    import keras

    read = keras.config.floatx, keras.config.epsilon, keras.config.image_data_format
    return {setting.__name__: setting() for setting in read}


def _model(model: keras.Model) -> dict[str, Tree]:
    compiled = seams.COMPILE_CONFIG.of(model, None)
    known = _models.get(model)
    if known is None or known[0] is not compiled or not model.built:
        layers = list(_layers(model))
        names = {layer.name: f"layer {number}" for number, layer in enumerate(layers, 1)}
        parts = {_COUNT: len(layers)} | {
            f"layer {number}": _renamed(_layer(layer), names) for number, layer in enumerate(layers, 1)
        }
        settings = {} if compiled is None else compiled.config
        tree = {
            "model": {"class": type(model).__name__, **_own_code(model)},
            "layers": parts,
            "connections of the layers": _connections(model, names),
            **{key: _described(value) for key, value in settings.items() if key not in _MEANINGLESS},
        }
        known = _models[model] = compiled, tree
    return known[1]


def _layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    # A trainer need not be a model.
    for layer in getattr(model, "layers", ()):
        yield layer
        if hasattr(layer, "layers"):
            yield from _layers(layer)


def _layer(layer: keras.layers.Layer) -> dict[str, Tree]:
    try:
        config = layer.get_config()
    except Exception:
        # A layer of the program may have none, or one that does not work without the whole model.
        config = {}
    entry = {"name": plain_name(layer.name), "class": type(layer).__name__}
    entry |= {**_parts(config), **_own_code(layer), **_vocabulary(layer)}
    if callable(function := getattr(layer, "function", None)) and "function" in config:
        # Its configuration has compiled code, with the path of the file.
        entry["function"] = _described(function)
    return entry


def _vocabulary(layer: Any) -> dict[str, Tree]:
    words = getattr(layer, "get_vocabulary", None)
    return {"vocabulary": _described(words())} if callable(words) and getattr(layer, "built", False) else {}


def _connections(model: keras.Model, names: Mapping[str, str]) -> str | None:
    """Return a digest of how the layers of a functional model are connected."""
    try:
        config = model.get_config()
    except Exception:
        return None
    nodes = [layer.get("inbound_nodes") for layer in config.get("layers", ())]
    ends = [config.get("input_layers"), config.get("output_layers")]
    return digest_of(_renamed(_described([nodes, ends]), names))


def _renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Replace the names of layers, which count what a process has made, by their numbers in the model."""
    if isinstance(tree, dict):
        return {key: _renamed(part, names) for key, part in tree.items()}
    return names.get(tree, tree) if isinstance(tree, str) else tree


def _own_code(thing: object, *, values: bool = True) -> dict[str, Tree]:
    """Return the code of a model, layer, or other object whose class the program has written itself.

    With ``values``, its attributes that the code uses count, too. What else it keeps may differ, such as the
    time at which it was made.
    """
    functions = {
        name: function
        for kind in reversed(type(thing).__mro__)
        for name, function in vars(kind).items()
        if _is_of_the_user(function)
    }
    codes = {
        f"{name}()": _described(function) if values and name != "__init__" else _code_of(function)
        for name, function in functions.items()
    }
    if not values:
        return codes
    used = {
        name
        for method, function in functions.items()
        if method not in ("__init__", "get_config")
        for code in _codes(function)
        for name in code.co_names
    }
    return codes | {
        f"attribute {name}": _described(value)
        for name, value in _attributes(thing).items()
        if name in used and (isinstance(value, np.ndarray) or all(map(_is_plain, _listed(value))))
    }


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def _callbacks(callbacks: Any) -> dict[str, Tree]:
    """Return those that set weights, rates, or the end. The chief alone may have others, which only read."""
    callbacks = getattr(callbacks, "callbacks", callbacks)
    listed = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    changing = [callback for callback in listed if callback is not None and _changes(callback)]
    names = [type(callback).__name__ for callback in changing]
    return {
        "callbacks that change the training": ", ".join(names) or "none",
        "callback": {
            f"{name} ({number})": _callback(callback)
            for number, (name, callback) in enumerate(zip(names, changing, strict=True), 1)
        },
    }


def _callback(callback: keras.callbacks.Callback) -> Tree:
    # What a callback of the program keeps or uses may differ, such as the time at which it was made.
    own = _own_code(callback, values=False)
    kept = (
        {} if own else {key: value for key, value in _attributes(callback).items() if not _LOCAL.search(key)}
    )
    plain = {key: value for key, value in kept.items() if _is_plain(value) or isinstance(value, _FUNCTIONS)}
    return {**own, **_parts(plain)}


def _changes(callback: keras.callbacks.Callback) -> bool:
    """Return whether the code of a callback changes the training."""
    return not type(callback).__module__.startswith("tfmuster.") and (
        any(map(_CHANGES_IN_R.search, _codes_in_r(callback)))
        or any(
            (step.opname == "STORE_ATTR" and step.argval in _ASSIGNED) or step.argval in _CALLED
            for code in _codes_of(callback)
            for step in dis.get_instructions(code)
        )
    )


def uses(callback: keras.callbacks.Callback, name: str, *, in_libraries: bool = False) -> bool:
    """Return whether code of the program, or of libraries, in a callback has the name of an attribute."""
    return any(
        name in (*code.co_names, *code.co_consts)
        for code in _codes_of(callback)
        if is_library(code.co_filename) == in_libraries
    ) or (not in_libraries and any(name in code for code in _codes_in_r(callback)))


def _codes_of(callback: keras.callbacks.Callback) -> Iterator[types.CodeType]:
    for function in _functions_of(callback):
        yield from _codes(function)


def _codes_in_r(callback: keras.callbacks.Callback) -> Iterator[str]:
    for function in _functions_of(callback):
        for name, text in (r_function(function) or {}).items():
            if name.endswith("code"):
                yield text


def _functions_of(callback: keras.callbacks.Callback) -> Iterator[Any]:
    """Yield a callback's methods, and the functions that it has."""
    methods = [value for kind in type(callback).__mro__[:-1] for value in vars(kind).values()]
    for value in (*methods, *_attributes(callback).values()):
        if isinstance(value, _FUNCTIONS):
            yield value


def _attributes(callback: object) -> dict[str, Any]:
    return getattr(callback, "__dict__", {})


_FUNCTIONS: Final = (types.FunctionType, types.MethodType, functools.partial)


def _codes(function: Any) -> Iterator[types.CodeType]:
    """Yield the code of a function, and of the functions inside it."""
    while isinstance(function, functools.partial):
        function = function.func
    waiting = [code] if (code := getattr(function, "__code__", None)) is not None else []
    while waiting:
        yield (code := waiting.pop())
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _described(value: Any, deep: int = 0) -> Tree:
    """Return what a value means, as a tree: the same on all workers if they mean the same."""
    try:
        return type(value).__name__ if deep > _DEEPEST else _meaning(value, deep)
    except Exception:
        # Values may be of any kind, and one that can't be described must not end a training.
        return type(value).__name__


def _meaning(value: Any, deep: int) -> Tree:
    if isinstance(value, str):
        # Folders may be one machine's.
        text = value.encode(errors="replace").decode()
        return f".../{os.path.basename(text)}" if os.path.isabs(text) else text
    if _is_plain(value):
        # JSON has no infinite numbers, and none of more than 64 bits.
        in_json = not isinstance(value, (int, float)) or (np.isfinite(value) and abs(value) < 2**63)
        return value if in_json else str(value)
    if isinstance(value, Mapping):
        # The name of a policy is what it means.
        of_dtype = str(value.get("class_name")).endswith("DTypePolicy")
        return value["config"]["name"] if of_dtype else _parts(value, deep)
    if isinstance(value, (list, tuple)):
        if len(value) > 8 and all(map(_is_plain, value)):
            first, digest = str(list(value[:8]))[:-1], digest_of(list(map(str, value)))[1:9]
            return f"{first}, ...] of {len(value)} ({digest})"
        return {f"[{number}]": _described(part, deep + 1) for number, part in enumerate(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, _FUNCTIONS):
        return _function(value, deep)
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array(value)
    configured = {"class": type(value).__name__, **_own_code(value), **_vocabulary(value)}
    if callable(config := getattr(value, "get_config", None)):
        # Not every configuration works.
        with contextlib.suppress(Exception):
            configured |= _parts(config(), deep)
        return configured
    return type(value).__name__


def _parts(value: Mapping[Any, Any], deep: int = 0) -> dict[str, Tree]:
    parts = {str(key): part for key, part in value.items() if key not in _MEANINGLESS}
    return {key: _described(part, deep + 1) for key, part in parts.items()}


def _array(value: Any) -> str:
    try:
        array = np.asarray(value)
    except Exception:
        # A tensor of a graph has no value.
        return type(value).__name__
    if array.size == 1 and array.dtype.kind in "fiub":
        return str(array.item())
    some = array if array.nbytes <= _MOST_BYTES else array.reshape(-1)[:: array.size // 4096]
    content = repr(some.tolist()).encode() if array.dtype.kind == "O" else some.tobytes()
    return f"{array.dtype} {array.shape} ({hashlib.sha256(content).hexdigest()[:8]})"


def _function(function: Any, deep: int) -> Tree:
    if isinstance(function, functools.partial):
        parts = {"arguments": [*function.args], "keywords": function.keywords}
        return {"function": _described(function.func, deep + 1), **_parts(parts, deep)}
    function = getattr(function, "__func__", function)
    if (of_r := r_function(function)) is not None:
        return {"function": "one of R", **{name: _text_of_r(text) for name, text in of_r.items()}}
    code, scope = function.__code__, function.__globals__
    name = f"{function.__module__}.{function.__qualname__}"
    closed = {key: cell.cell_contents for key, cell in _cells(function)}
    if is_library(code.co_filename):
        # What it is made of is the library's, but for the program's functions that it wraps.
        wrapped = {key: value for key, value in closed.items() if _is_of_the_user(value)}
        return {"function": name, **_parts(wrapped, deep)} if wrapped else name
    names = [name for part in _codes(function) for name in part.co_names if name in scope]
    values = {
        "defaults": function.__defaults__,
        "keyword defaults": function.__kwdefaults__,
        "values": closed,
        "globals": {name: scope[name] for name in names if _is_plain(scope[name]) and name[:2] != "__"},
    }
    present = {key: value for key, value in values.items() if value}
    # Functions may call each other without end.
    called = _parts({name: scope[name] for name in names if _is_of_the_user(scope[name])}, deep + 2)
    return {"function": function.__name__, "code": _code(code), **_parts(present, deep), **called}


def _text_of_r(text: str) -> str:
    """Return what stands for the code of R's function, or for a value that it uses."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:80]}... ({hashlib.sha256(text.encode()).hexdigest()[:8]})"


def _cells(function: types.FunctionType) -> Iterator[tuple[str, types.CellType]]:
    """Yield the variables that a function has from around it, without those that have no value yet."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            cell.cell_contents  # noqa: B018 - it raises
            yield name, cell


def _is_of_the_user(value: object) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    return not is_library(value.__code__.co_filename) or r_function(value) is not None


def _code_of(function: types.FunctionType) -> str:
    of_r = r_function(function)
    codes = [text for name, text in (of_r or {}).items() if name.endswith("code")]
    return _code(function.__code__) if of_r is None else _text_of_r("\n".join(codes))


def _code(code: types.CodeType) -> str:
    """Return a digest of compiled code, without its place, its comments and its documentation."""
    digest = hashlib.sha256()
    waiting = [code]
    while waiting:
        part = waiting.pop()
        constants = (
            part.co_consts[1:] if part.co_consts and isinstance(part.co_consts[0], str) else part.co_consts
        )
        waiting += [constant for constant in constants if isinstance(constant, types.CodeType)]
        plain = [
            sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
            for constant in constants
            if not isinstance(constant, types.CodeType)
        ]
        digest.update(repr((part.co_code, plain, part.co_names, part.co_varnames)).encode())
    return digest.hexdigest()[:16]
