"""What a call of ``fit``, ``evaluate``, or ``predict`` means, apart from its data, as a tree to compare.

Names and shapes do not tell what a model computes. So the tree has the configuration of each layer and of
what the model is compiled with, the arguments of the call, and the callbacks that change the training.
Numbers that Keras adds to names are left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from .. import seams
from .callbacks import callbacks_that_change
from .documents import Call, plain_name
from .samples import chain
from .values import MEANINGLESS, Tree, described, digest_of, own_code, parts_of, vocabulary_of

if TYPE_CHECKING:
    import keras

#: Arguments of a call that are compared in another way, or that may differ.
_OTHER_ARGUMENTS: Final = ("self", "x", "y", "sample_weight", "validation_data", "callbacks", "verbose")
_COUNT: Final = "number of layers"

#: What models mean as they are compiled, because each call would look at all their layers again.
_models: weakref.WeakKeyDictionary[Any, tuple[object, Tree]] = weakref.WeakKeyDictionary()


def meaning_of(call: Call) -> Tree:
    """Return what a call means."""
    arguments = {name: value for name, value in call.arguments.items() if name not in _OTHER_ARGUMENTS}
    return {
        **_model(call.model),
        "argument": parts_of(arguments),
        "setting of Keras": _settings(),
        "data": _data(call),
        **callbacks_that_change(call.arguments.get("callbacks")),
    }


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
        f"function {number}": described(seams.TRACED.of(wrapper))
        for number, wrapper in enumerate(reversed(functions), 1)
    }
    # Objects of the program may keep what is one worker's, such as a folder.
    return {**made, **own_code(data, values=False)}


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
            "model": {"class": type(model).__name__, **own_code(model)},
            "layers": parts,
            "connections of the layers": _connections(model, names),
            **{key: described(value) for key, value in settings.items() if key not in MEANINGLESS},
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
    entry |= {**parts_of(config), **own_code(layer), **vocabulary_of(layer)}
    if callable(function := getattr(layer, "function", None)) and "function" in config:
        # Its configuration has compiled code, with the path of the file.
        entry["function"] = described(function)
    return entry


def _connections(model: keras.Model, names: Mapping[str, str]) -> str | None:
    """Return a digest of how the layers of a functional model are connected."""
    try:
        config = model.get_config()
    except Exception:
        return None
    nodes = [layer.get("inbound_nodes") for layer in config.get("layers", ())]
    ends = [config.get("input_layers"), config.get("output_layers")]
    return digest_of(_renamed(described([nodes, ends]), names))


def _renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Replace the names of layers, which count what a process has made, by their numbers in the model."""
    if isinstance(tree, dict):
        return {key: _renamed(part, names) for key, part in tree.items()}
    return names.get(tree, tree) if isinstance(tree, str) else tree
