"""Only the register of seams names what is private in Keras, TensorFlow and JAX."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from support.paths import ROOT

SOURCES = ROOT / "python" / "tfmuster"
PRIVATE = ("keras.src", "tensorflow.python", "tf_keras.src", "jax._src")
#: The last two only look at what is imported, or import it for later, and say so.
MAY_NAME_THEM = {
    *("keras_compat/seams.py", "system/register.py"),
    *("system/generators.py", "worker/warm.py"),
}
#: Functions that take the name of an attribute.
BY_NAME = ("getattr", "hasattr", "setattr", "delattr")
#: What Python documents although it has an underscore.
DOCUMENTED = {"_exit", "_getframe", "_current_frames", "_replace", "_asdict", "_fields"}
#: PySpark has no public way to its context's executors.
OF_OTHERS = {
    "launcher/engines/spark.py": {"_jsc"},
    "launcher/engines/spark_session.py": {"_jsc", "_active_spark_context"},
}


def named_in(source: str) -> Iterator[str]:
    """Yield the private modules that a file imports, or names in a text other than a docstring."""
    tree = ast.parse(source)
    docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            names = [node.value]
        else:
            continue
        yield from (name for name in names if any(name.startswith(private) for private in PRIVATE))


def test_private_modules_are_rows_of_the_register() -> None:
    found = {
        str(path.relative_to(SOURCES)): names
        for path in sorted(SOURCES.rglob("*.py"))
        if (names := list(named_in(path.read_text(encoding="utf-8"))))
    }
    assert {file: names for file, names in found.items() if file not in MAY_NAME_THEM} == {}
    assert found.keys() >= MAY_NAME_THEM - {"system/register.py"}


def test_an_import_and_a_text_are_found() -> None:
    source = (
        'def f():\n    """Of keras.src."""\n    from jax._src import distributed\n    x = "keras.src.losses"'
    )
    assert list(named_in(source)) == ["jax._src.distributed", "keras.src.losses"]


def attributes_in(source: str) -> Iterator[str]:
    """Yield the attributes with an underscore that a file uses and does not define."""
    tree = ast.parse(source)
    defined = {
        *(node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))),
        *(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)),
        *(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and of_itself(node.value)),
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
            of_name = node.args[1] if len(node.args) > 1 else None
            name = str(of_name.value) if isinstance(of_name, ast.Constant) else ""
        else:
            continue
        ours = name in defined or name in DOCUMENTED or name.startswith(("__", "_tfmuster_", "_watch_worker"))
        if name.startswith("_") and not ours:
            yield name


def of_itself(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def test_private_attributes_are_rows_of_the_register() -> None:
    found = {
        str(path.relative_to(SOURCES)): names
        for path in sorted(SOURCES.rglob("*.py"))
        if (names := set(attributes_in(path.read_text(encoding="utf-8"))))
    }
    assert found == OF_OTHERS


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(model): return model._strategy", ["_strategy"]),
        ("def f(model): return getattr(model, '_strategy', None)", ["_strategy"]),
        ("def f(model): setattr(model, '_strategy', 1)", ["_strategy"]),
        ("class A:\n    def __init__(self): self._x = 1\n    def f(self, other): return other._x", []),
        ("import os\nos._exit(1)", []),
    ],
)
def test_a_private_attribute_is_noticed(source: str, names: list[str]) -> None:
    assert list(attributes_in(source)) == names
