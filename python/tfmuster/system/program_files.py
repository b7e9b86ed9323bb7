"""Find the files of a program without running it, and what they do."""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: Files that nobody compares: more of a program, or larger ones, which have data in them.
MOST_FILES: Final = 300
_MOST_BYTES: Final = 4 << 20

#: A line of R that runs another file, whose name is in the line.
_SOURCED: Final = re.compile(rb"""^[^#\n]*\b(?:sys\.)?source\(\s*["']([^"'\n]+)["']""", re.MULTILINE)


def program_files(script: Path) -> dict[str, Path]:
    """Return a script and the files that it imports or sources, by their places.

    Those are modules and packages beside the script, and what R sources by name in the working directory.
    What is imported by a name that is only known when the program runs is not found. A file that can't be
    read, or is too large, is left out.
    """
    found: dict[str, Path] = {}
    is_r = script.suffix.lower() == ".r"
    folder, to_read = Path() if is_r else script.parent, [script]
    while to_read and len(found) < MOST_FILES:
        path = to_read.pop()
        name = script.name if path == script else path.relative_to(folder).as_posix()
        if name in found or not is_comparable(path):
            continue
        found[name] = path
        others = _sourced(path) if is_r else _imported(path, folder)
        to_read += sorted(other for other in others if other.is_file())
    return found


def is_comparable(path: Path) -> bool:
    """Return whether a file can be read, and is as small as those of programs are."""
    try:
        return path.is_file() and path.stat().st_size <= _MOST_BYTES
    except OSError:
        return False


def _sourced(path: Path) -> Iterator[Path]:
    """Yield the files in the working directory that a file of R names in ``source()``."""
    for name in _SOURCED.findall(path.read_bytes()):
        sourced = Path(name.decode("utf-8", "replace"))
        if not sourced.is_absolute() and ".." not in sourced.parts:
            yield sourced


def _imported(path: Path, folder: Path) -> Iterator[Path]:
    """Yield where the modules that a Python file imports are, if they are in a folder."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(folder, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            # One dot is the package that the file is in.
            base = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else folder
            module = [node.module] if node.module else []
            names = [(base, ".".join([*module, *more])) for more in ([], *([n.name] for n in node.names))]
        else:
            continue
        for base, name in names:
            if not base.is_relative_to(folder):
                continue
            parts = [part for part in name.split(".") if part]
            for depth in range(1, len(parts) + 1):
                place = base.joinpath(*parts[:depth])
                yield place.with_suffix(".py")
                yield place / "__init__.py"


def code_digest(path: Path) -> str:
    """Return a digest of what a file does: its code without comments and texts.

    Texts may name what is on one machine only. A script that sets TF_CONFIG must differ.
    """
    content = path.read_bytes()
    if b"TF_CONFIG" in content:
        return "sets TF_CONFIG"
    if path.suffix == ".py":
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError):
            # It is being edited, or was after it was imported.
            return digest(content)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = ""
        return digest(ast.dump(tree).encode())
    lines = [line.strip() for line in content.splitlines()]
    return digest(b"\n".join(line for line in lines if line and not line.startswith(b"#")))


def digest(content: bytes) -> str:
    """Return a short digest of a file's content."""
    return hashlib.sha256(content).hexdigest()[:8]


@functools.cache
def package_digest() -> str:
    """Return a digest of the files of tfmuster itself: every checkout has the same version."""
    # In every agent: with `Path.rglob`, this takes three times as long.
    root = str(Path(__file__).parents[1])
    found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    whole = hashlib.sha256()
    for path in sorted(path for path in found if path.endswith(".py")):
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        name = os.path.relpath(path, root).replace(os.sep, "/")
        whole.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return whole.hexdigest()[:16]
