"""What values of a program mean, as trees to compare: configurations, functions, arrays, its own objects.

Functions, R's too, have no configuration: their code stands for them, with the constants, defaults and values
that it uses. The places of files are left out.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson

from ...system.embedded_r import r_function
from ...system.user_code import is_library

#: A part of what a call means: parts by their names, or a value of JSON.
Tree = Any

#: Kinds of functions that a program may pass.
FUNCTIONS: Final = (types.FunctionType, types.MethodType, functools.partial)
#: Keys of configurations that say nothing of the meaning.
MEANINGLESS: Final = {"name", "shared_object_id", "build_config", "steps_per_execution"}
#: Parts within parts that are looked at, and bytes of an array of which all are.
_DEEPEST: Final = 8
_MOST_BYTES: Final = 1 << 20


def digest_of(tree: Tree) -> str:
    """Return a digest of a part, which begins with ``+`` if the part has parts."""
    content = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
    return ("+" if isinstance(tree, dict) and tree else "=") + hashlib.sha256(content).hexdigest()[:16]


def own_code(thing: object, *, values: bool = True) -> dict[str, Tree]:
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
        f"{name}()": described(function) if values and name != "__init__" else _code_of(function)
        for name, function in functions.items()
    }
    if not values:
        return codes
    used = {
        name
        for method, function in functions.items()
        if method not in ("__init__", "get_config")
        for code in codes_of(function)
        for name in code.co_names
    }
    return codes | {
        f"attribute {name}": described(value)
        for name, value in attributes_of(thing).items()
        if name in used and (isinstance(value, np.ndarray) or all(map(is_plain, _listed(value))))
    }


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def attributes_of(thing: object) -> dict[str, Any]:
    """Return the attributes that an object has by itself."""
    return getattr(thing, "__dict__", {})


def codes_of(function: Any) -> Iterator[types.CodeType]:
    """Yield the code of a function, and of the functions inside it."""
    while isinstance(function, functools.partial):
        function = function.func
    waiting = [code] if (code := getattr(function, "__code__", None)) is not None else []
    while waiting:
        yield (code := waiting.pop())
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def is_plain(value: object) -> bool:
    """Return whether a value is one of JSON without parts."""
    return value is None or isinstance(value, (bool, int, float, str))


def described(value: Any, deep: int = 0) -> Tree:
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
    if is_plain(value):
        # JSON has no infinite numbers, and none of more than 64 bits.
        in_json = not isinstance(value, (int, float)) or (np.isfinite(value) and abs(value) < 2**63)
        # NumPy's float64 is a float, too.
        return str(value) if not in_json else float(value) if isinstance(value, float) else value
    if isinstance(value, Mapping):
        # The name of a policy is what it means.
        of_dtype = str(value.get("class_name")).endswith("DTypePolicy")
        return value["config"]["name"] if of_dtype else parts_of(value, deep)
    if isinstance(value, (list, tuple)):
        if len(value) > 8 and all(map(is_plain, value)):
            first, digest = str(list(value[:8]))[:-1], digest_of(list(map(str, value)))[1:9]
            return f"{first}, ...] of {len(value)} ({digest})"
        return {f"[{number}]": described(part, deep + 1) for number, part in enumerate(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, FUNCTIONS):
        return _function(value, deep)
    if isinstance(value, type):
        return value.__qualname__
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array(value)
    configured = {"class": type(value).__name__, **own_code(value), **vocabulary_of(value)}
    if callable(config := getattr(value, "get_config", None)):
        try:
            return configured | parts_of(config(), deep)
        except Exception:
            # An object of the program in it may have no configuration, such as the schedule of an optimizer.
            own = {key: part for key, part in attributes_of(value).items() if own_code(part, values=False)}
            return configured | parts_of(own, deep)
    return type(value).__name__


def parts_of(value: Mapping[Any, Any], deep: int = 0) -> dict[str, Tree]:
    """Return what the parts of a configuration mean, without those that say nothing."""
    parts = {str(key): part for key, part in value.items() if key not in MEANINGLESS}
    return {key: described(part, deep + 1) for key, part in parts.items()}


def vocabulary_of(layer: Any) -> dict[str, Tree]:
    """Return the vocabulary of a layer that has one."""
    words = getattr(layer, "get_vocabulary", None)
    return {"vocabulary": described(words())} if callable(words) and getattr(layer, "built", False) else {}


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
        return {"function": described(function.func, deep + 1), **parts_of(parts, deep)}
    function = getattr(function, "__func__", function)
    if (of_r := r_function(function)) is not None:
        return {"function": "one of R", **{name: _text_of_r(text) for name, text in of_r.items()}}
    code, scope = function.__code__, function.__globals__
    name = f"{function.__module__}.{function.__qualname__}"
    closed = {key: cell.cell_contents for key, cell in _cells(function)}
    if is_library(code.co_filename):
        # What it is made of is the library's, but for the program's functions that it wraps.
        wrapped = {key: value for key, value in closed.items() if _is_of_the_user(value)}
        return {"function": name, **parts_of(wrapped, deep)} if wrapped else name
    names = [name for part in codes_of(function) for name in part.co_names if name in scope]
    values = {
        "defaults": function.__defaults__,
        "keyword defaults": function.__kwdefaults__,
        "values": closed,
        "globals": {name: scope[name] for name in names if is_plain(scope[name]) and name[:2] != "__"},
    }
    present = {key: value for key, value in values.items() if value}
    # Functions may call each other without end.
    called = parts_of({name: scope[name] for name in names if _is_of_the_user(scope[name])}, deep + 2)
    return {"function": function.__name__, "code": _code(code), **parts_of(present, deep), **called}


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
