"""Only the register of seams names private modules of Keras, TensorFlow and JAX."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.paths import ROOT

SOURCES = ROOT / "python" / "tfmuster"
PRIVATE = ("keras.src", "tensorflow.python", "tf_keras.src", "jax._src")
#: The last two only look at what is imported, or import it for later, and say so.
MAY_NAME_THEM = {
    *("keras_compat/seams.py", "keras_compat/register.py"),
    *("system/generators.py", "worker/warm.py"),
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
    assert found.keys() >= MAY_NAME_THEM - {"keras_compat/register.py"}


def test_an_import_and_a_text_are_found() -> None:
    source = (
        'def f():\n    """Of keras.src."""\n    from jax._src import distributed\n    x = "keras.src.losses"'
    )
    assert list(named_in(source)) == ["jax._src.distributed", "keras.src.losses"]
