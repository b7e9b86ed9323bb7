"""Check the register of seams against the installed releases, or write its page of the documentation.

seams.py          print a table: how many rows fit each package, and each row that does not
seams.py --page   print docs/developers/seams.md

The first needs tfmuster and the packages, but neither R nor the tests. It ends with 1 if an essential row of
an installed package does not fit.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
from collections import defaultdict
from pathlib import Path

from tfmuster.keras_compat import seams
from tfmuster.system import unseeded
from tfmuster.system.register import TESTED, Private, Seam, rows
from tfmuster.worker import reticulate

SOURCES = Path(__file__).resolve().parents[1] / "python" / "tfmuster"
TITLES = {
    "keras": "Keras 3",
    "tensorflow": "TensorFlow",
    "tf_keras": "Keras 2 (tf-keras)",
    "jax": "JAX",
    "numpy": "NumPy",
    "reticulate": "reticulate (of R)",
}


def installed(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return str(importlib.import_module(package).__version__)
    except ImportError:
        return None


def table() -> int:
    """Print which rows fit, and return the number of essential ones that do not."""
    line = "{:<20}{:<24}{:<14}{:>5}{:>5}"
    print(line.format("package", "version", "tested", "rows", "fit"))
    versions = {package: installed(package) for package in TITLES}
    present = {package for package, version in versions.items() if version}
    misfits: dict[Seam, str] = {}
    for package, title in TITLES.items():
        # Rows of Keras on JAX need JAX, too.
        of_package = [row for row in rows() if row.package == package and row.packages <= present]
        wrong = {row: why for row in of_package if (why := row.misfit())}
        counts = (len(of_package), len(of_package) - len(wrong)) if of_package else ("", "")
        print(line.format(title, versions[package] or "not installed", tested(package), *counts))
        misfits |= wrong
    for row, why in misfits.items():
        print(f"\n{'essential' if row.essential else 'optional'}: {row}\n  {why}. Needed for: {row.why}")
    return sum(row.essential for row in misfits)


def tested(package: str) -> str:
    """Return the releases that the tests run with."""
    oldest, newest = (".".join(map(str, release)) for release in TESTED[package])
    return f"{oldest} to {newest}"


def users() -> dict[str, list[str]]:
    """Return the modules that use each row, by the name of the row."""
    named: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "seams"
            ):
                named[node.attr].add(str(path.relative_to(SOURCES).with_suffix("")).replace("/", "."))
    return {name: sorted(modules) for name, modules in named.items()}


def page() -> str:
    """Return the page of all rows."""
    registers = {**vars(seams), **vars(reticulate), **vars(unseeded)}
    groups = {name: value if isinstance(value, list) else [value] for name, value in registers.items()}
    used = users()
    names = {id(row): name for name, group in groups.items() for row in group if isinstance(row, Seam)}
    lines = [
        "# Names of other packages",
        "",
        "tfmuster repairs Keras and TensorFlow for several workers, and so it replaces or reads names of "
        "theirs that are not public, and some of reticulate and NumPy. Each is a row of "
        "`keras_compat/seams.py`, `worker/reticulate.py` or `system/unseeded.py`, from which this page is "
        "written. All rows are looked at before anything is replaced. A release without an essential row is "
        "refused; without an optional one, its feature is off. `make seams` tries the newest releases and "
        "nightly builds.",
        "",
        "An attribute of an object has a star. It is read or set, and not replaced.",
        "",
    ]
    for package, title in TITLES.items():
        of_package = [row for row in rows() if row.package == package]
        lines += [
            f"## {title}, {tested(package)}: {len(of_package)} rows",
            "",
            "| name | needed for | takes | used by |",
            "|---|---|---|---|",
        ]
        for row in of_package:
            star = "\\*" if isinstance(row, Private) else ""
            why = row.why if row.essential else f"{row.why} (optional)"
            users_of_row = ", ".join(f"`{module}`" for module in used.get(names.get(id(row), ""), []))
            takes = ", ".join(f"`{name}`" for name in row.takes)
            lines.append(f"| `{row}`{star} | {why} | {takes} | {users_of_row} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        print(page(), end="")
    else:
        sys.exit(1 if table() else 0)
