"""No two files of tfmuster import each other in a circle, inside functions and for type checkers too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import tfmuster

PACKAGE = Path(tfmuster.__file__).parent


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """The files of a package by the names of their modules."""
    paths = {path.relative_to(package.parent): path for path in package.rglob("*.py")}
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): paths[path] for path in paths}


def imported_names(module: str, path: Path) -> Iterator[str]:
    """The modules that a file imports, and what it imports from them, by absolute names."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def imports(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """The modules that each module imports. A name that is no module belongs to the module before its dot."""
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        names = imported_names(module, path)
        owners = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = (owners & set(files)) - {module}
    return graph


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """The modules that a module imports, itself or through others."""
    seen: set[str] = set()
    left = list(graph[start])
    while left:
        module = left.pop()
        if module not in seen:
            seen.add(module)
            left += graph[module]
    return seen


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules each of which imports, through others, itself."""
    below = {module: reached(graph, module) for module in graph}
    return {
        frozenset(other for other in below[module] if module in below[other])
        for module in graph
        if module in below[module]
    }


def test_no_files_import_each_other_in_a_circle() -> None:
    assert [sorted(circle) for circle in circles(imports(modules()))] == []


def test_circles_are_found(tmp_path: Path) -> None:
    package = tmp_path / "sample"
    (package / "inner").mkdir(parents=True)
    texts = {
        "__init__.py": "",
        "a.py": "def use():\n    from .inner import b",
        "inner/__init__.py": "",
        "inner/b.py": "from ..c import name",
        "c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import use",
        "d.py": "import sample.a",
    }
    for name, text in texts.items():
        (package / name).write_text(text)
    assert circles(imports(modules(package))) == {frozenset({"sample.a", "sample.inner.b", "sample.c"})}
