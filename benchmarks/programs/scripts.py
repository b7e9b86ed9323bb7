"""The script that a notebook or a published script is run as."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path

#: The folder of what programs import besides the installed packages.
INSIDE = Path(__file__).parent / "inside"
_BEGIN = "import stand_ins; stand_ins.begin()\n"
_END = "\nstand_ins.finish()\n"
_FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)
_DOWNLOAD = re.compile(r"^\s*!\s*(?:wget|curl)\b(.*)$")
_UNPACK = re.compile(r"^\s*!\s*(?:unzip|tar)\b.*?([^\s'\"]+\.(?:zip|tgz|tar\.gz|tar))")
_URL = re.compile(r"https?://[^\s'\"\\]+")
#: Names of earlier releases, and settings that make a program long or choose another backend.
_CHANGES = (
    (r"\bkeras_core\b", "keras"),
    (r"\butils\.np_utils import", "utils import"),
    (r"\.fit_generator\(", ".fit("),
    (r"\.reset_states\(\)", ".reset_state()"),
    (r"\b(Adam|SGD|RMSprop|Adagrad|Adadelta|Nadam)\(([^()]*)\blr\s*=", r"\1(\2learning_rate="),
    (r"^(\s*)(?:from|import) google\.colab.*$", r"\1pass"),
    (r"^(\s*)(?:files|drive)\.(?:upload|download|mount)\(.*\)$", r"\1pass"),
    (r"^(\s*)os\.environ\[.KERAS_BACKEND.\].*$", r"\1pass"),
    (r"^(\s*\w*(?:epochs|EPOCHS)\w*\s*=\s*)\d+\b", r"\g<1>2"),
    (r"\brange\((?:epochs|EPOCHS|num_epochs|NUM_EPOCHS)\)", "range(2)"),
)


def source_of(path: Path) -> str:
    """Return the Python text of a notebook or script, with its magic left out or translated."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n\n".join(_cell("".join(cell["source"])) for cell in cells)
    for pattern, replacement in _CHANGES:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def script_of(path: Path) -> str:
    """Return what is run for a program; SyntaxError if it is not Python."""
    text = source_of(path)
    future = "\n".join(_FUTURE.findall(text))
    script = f"{future}\n{_BEGIN}{_FUTURE.sub('', text)}{_END}"
    ast.parse(script)
    return script


def with_same_random(script: str) -> str:
    """Return a script that draws from ``keras.random`` instead of ``tf.random``; nothing if it does not."""
    changed = re.sub(r"\b(?:tf|tensorflow)\.random\.(?=normal|uniform)", "stand_ins.same_random.", script)
    begin = _BEGIN.replace("\n", "; import stand_ins.same_random\n")
    return changed.replace(_BEGIN, begin, 1) if changed != script else ""


def missing_package(script: str) -> str:
    """Return the first package that a script imports first of all and that is not installed, or nothing."""
    for statement in ast.parse(script).body:
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names = [statement.module]
        for name in (name.partition(".")[0] for name in names):
            if not (INSIDE / name).exists() and not (INSIDE / f"{name}.py").exists() and not find_spec(name):
                return name
    return ""


def _cell(source: str) -> str:
    """Return a cell without magic: its downloads are kept, and a cell of another language is left out."""
    if source.lstrip().startswith("%%"):
        first, _, rest = source.lstrip().partition("\n")
        return rest if first.startswith(("%%time", "%%capture")) else ""
    joined = re.sub(r"^(\s*!.*)\\\n", r"\1 ", source, flags=re.MULTILINE)
    while joined != source:
        source, joined = joined, re.sub(r"^(\s*!.*)\\\n", r"\1 ", joined, flags=re.MULTILINE)
    return "\n".join(_line(line) for line in source.split("\n"))


def _line(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    if (shell := _DOWNLOAD.match(line)) and (url := _URL.search(shell[1])):
        to = re.search(r"(?:-O|-o|--output-document)[ =]+([^\s'\"]+)", shell[1].replace(url[0], ""))
        return f"{indent}stand_ins.download({url[0]!r}, {to[1] if to else ''!r})"
    if unpack := _UNPACK.match(line):
        return f"{indent}stand_ins.unpack({unpack[1]!r})"
    if (
        re.match(r"\s*(!|%%?[a-z]|\?)", line)
        or re.match(r"\s*\w+\s*=\s*!", line)
        or re.match(r"^\s*[\w.]+\?+\s*$", line)
    ):
        return f"{indent}pass"
    return line
