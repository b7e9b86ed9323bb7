"""Write R's functions of places and of control from the table of options, and what several workers change.

The latter is a table of docs/concepts/fitting.md, which R's help and its vignette have as a list.
``make options`` runs this, and ``tests/python/unit/test_options.py`` fails if a file is not up to date.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tfmuster.options.places import PLACES, Place
from tfmuster.options.rows import Option
from tfmuster.options.table import Control, Plain, Waiting, text_of
from tfmuster.words import r_text

_ROOT = Path(__file__).parents[1]
_WIDTH = 110
#: What only R's functions on workers need, after `strategy`: default, kind of check, and documentation.
_OF_R = {
    "globals": (
        "TRUE",
        "",
        "Functions only: `TRUE` finds and sends the objects that the function uses. Names of more objects, "
        "or a named list of them, are sent in addition; `FALSE` sends none.",
    ),
    "packages": ("NULL", "strings", "Functions only: packages to attach in addition to those found."),
}
_OPTIONS = (
    'Options of the program that starts the workers, as strings: for sbatch `"--partition=gpu"`, for mpirun '
    '`"--map-by node"`, for Spark `"spark.executor.memory=4g"`.'
)


def files() -> dict[Path, str]:
    """Return the content of each file."""
    return {
        _ROOT / "R" / "launch_options.R": _functions(),
        _ROOT / "vignettes" / "differences.md": "\n".join(_differences()) + "\n",
    }


def _functions() -> str:
    rows = [row for settings in (Plain, Waiting, Control, *PLACES) for row in settings.public("r")]
    kinds = {row.name: row.kind.name for row in rows} | {name: kind for name, (_, kind, _) in _OF_R.items()}
    listed = ", ".join(f'{name} = "{kind}"' for name, kind in kinds.items() if kind)
    parts = [
        "# Made by `make options` from python/tfmuster/options/: change a setting there.",
        "# The kind of value that each setting takes, by the names of argument_kinds.\n"
        + "\n".join(
            ["launch_arguments <- c(", *_wrapped(listed, initial_indent="  ", subsequent_indent="  "), ")"]
        ),
    ]
    documented: set[str] = set()
    parts += [_place(place, documented) for place in PLACES]
    return "\n\n".join([*parts, _control()]) + "\n"


def _place(place: type[Place], documented: set[str]) -> str:
    rows = {row.name: row for row in place.public("r")}
    unnamed = [name.lstrip("*") for name in place.UNNAMED]
    names = [*unnamed, *(name for name in rows if name not in unnamed)]
    arguments = ["..." if f"*{name}" in place.UNNAMED else _argument(rows[name]) for name in names]
    values = [f"{name} = {'options_of(...)' if f'*{name}' in place.UNNAMED else name}" for name in names]
    lines = []
    for name in names:
        if name not in documented:
            documented.add(name)
            is_rest = f"*{name}" in place.UNNAMED
            lines += _param("..." if is_rest else name, _OPTIONS if is_rest else text_of(rows[name], "r"))
    lines += ["#' @rdname on_local", "#' @export"]
    function = f"on_{place.backend} <- function"
    return "\n".join(
        [*lines, *_function(function, arguments, f'new_on("{place.backend}", list', values, "))")]
    )


def _control() -> str:
    lines, arguments = [], []
    for row in Control.public("r"):
        arguments.append(_argument(row))
        lines += _param(row.name, text_of(row, "r"))
        if row.name == "strategy":
            for name, (default, _, documentation) in _OF_R.items():
                arguments.append(f"{name} = {default}")
                lines += _param(name, documentation)
    lines += ["#' @section What several workers change:", *(f"#' {line}".rstrip() for line in _differences())]
    lines += ["#' @rdname launch_control", "#' @export"]
    code = _function("launch_control <- function", arguments, "new_control", ["settings"], ")")
    code.insert(-2, "  settings <- mget(names(formals(launch_control)))")
    return "\n".join([*lines, *code])


def _differences() -> list[str]:
    """Return the table of what several workers change as a list in R's words."""
    page = (_ROOT / "docs" / "concepts" / "fitting.md").read_text(encoding="utf-8")
    section = page.partition("## What several workers change\n")[2].partition("\n## ")[0]
    introduction, *_ = section.strip().split("\n\n")
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", section, re.MULTILINE)[1:]
    parts = [(introduction.replace("\n", " "), ""), *((f"* {what}: {says}", "  ") for what, says in rows)]
    lines = []
    for text, indent in parts:
        plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)
        in_r = re.sub("`.*?`", lambda code: _in_r(code[0]), plain)
        lines += textwrap.wrap(in_r, _WIDTH - 3, subsequent_indent=indent, break_on_hyphens=False)
        lines += [""] if not indent else []
    return lines


def _in_r(code: str) -> str:
    """Return a line of Python's code that names functions and values as R's."""
    code = re.sub(r"(?<=\w)\.(?=[a-z])", "$", code)
    code = re.sub(r"(\w)=(?=[\w\".])", r"\1 = ", code)
    return re.sub(r"\b(True|False)\b", lambda value: value[0].upper(), code)


def _argument(row: Option) -> str:
    empty = isinstance(row.default, (tuple, dict)) and not row.default
    return f"{row.name} = {'character()' if empty else r_text(row.default)}"


def _param(name: str, documentation: str) -> list[str]:
    return textwrap.wrap(
        f"@param {name} {documentation}",
        _WIDTH,
        initial_indent="#' ",
        subsequent_indent="#'   ",
        break_long_words=False,
    )


def _wrapped(code: str, **indents: str) -> list[str]:
    """Return lines of code, without a break before or after an equal sign."""
    lines = textwrap.wrap(code.replace(" = ", "\xa0=\xa0"), _WIDTH, **indents)
    return [line.replace("\xa0", " ") for line in lines]


def _function(start: str, arguments: Sequence[str], call: str, values: Sequence[str], end: str) -> list[str]:
    indent = " " * (len(start) + 1)
    head = _wrapped(f"{start}({', '.join(arguments)}) {{", subsequent_indent=indent)
    one = f"  {call}({', '.join(values)}{end}"
    if len(one) <= _WIDTH:
        return [*head, one, "}"]
    inner = _wrapped(", ".join(values), initial_indent="    ", subsequent_indent="    ")
    return [*head, f"  {call}(", *inner, f"  {end}", "}"]


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
