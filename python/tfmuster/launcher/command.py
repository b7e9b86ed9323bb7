"""The command of a job: its name, and the program and arguments that each task runs."""

from __future__ import annotations

import difflib
import itertools
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..cluster.spec import Task
from ..errors import LaunchError
from ..system.interpreter import python_executable, rscript_executable, run_module
from ..system.script_python import script_python
from ..words import Code, r_text

#: Stands before the name of a module that is to be run, as for Python itself.
MODULE = "-m"
#: Suffixes of scripts.
_SCRIPTS = (".py", ".r", ".sh")
#: Suffixes of notebooks, and how to make a script of one.
_NOTEBOOKS = {
    ".ipynb": "Convert it: jupyter nbconvert --to script {path}; then launch {stem}.py. Or define a function "
    "in the notebook, and call launch(function) of tfmuster there.",
    **dict.fromkeys(
        (".rmd", ".qmd"),
        'Extract its code in R: knitr::purl("{path}"); then launch {stem}.R. Or define a function in the '
        "notebook, and call launch(function) of tfmuster there.",
    ),
}


def resolve_command(command: Sequence[str], *, python: str | None = None) -> tuple[str, ...]:
    """Return interpreter and script, or the command with its path. Raises LaunchError if one is missing.

    After `MODULE`, the command has the name of a Python module, and its arguments. `python` runs the script
    or module; the default is that of `script_python`, but for scripts of tfmuster itself.
    """
    first, *arguments = command
    if first == MODULE and arguments:
        return (python or script_python(Path.cwd()), MODULE, *arguments)
    suffix = Path(first).suffix.lower()
    if suffix in (".py", ".r"):
        if not Path(first).is_file():
            raise LaunchError(
                "The script to run must exist.",
                found=f"no file {first} in {os.getcwd()}",
                fix=f"{_meant(first)}Check the path; it is relative to the working directory.",
                reason="script",
            )
        if suffix == ".r":
            return (rscript_executable() or _executable("Rscript"), first, *arguments)
        folder = Path(first).absolute().parent
        # Functions and their values go between sessions and workers as pickles of the session's Python.
        own = python_executable() if folder == Path(__file__).parent else None
        return (python or own or script_python(folder), first, *arguments)
    if first == "tfmuster":
        # Use this installation, even if another one is on PATH.
        return (*run_module("tfmuster"), *arguments)
    if suffix in _NOTEBOOKS:
        raise LaunchError(
            "A notebook must become a script before it can be launched.",
            found=first,
            fix=_NOTEBOOKS[suffix].format(
                path=shlex.quote(first), stem=shlex.quote(str(Path(first).with_suffix("")))
            ),
            reason="notebook",
        )
    return (_executable(first), *arguments)


def command_of(command: Sequence[str], task: Task) -> tuple[str, ...]:
    """Return a command with ``{index}``, ``{type}``, ``{worker_hosts}`` in its arguments replaced for a task.

    ``{ps_hosts}`` and so on stand for the addresses of the tasks of a kind, separated by commas.
    """
    hosts = {f"{{{kind}_hosts}}": ",".join(addresses) for kind, addresses in task.cluster.to_dict().items()}
    values = {"{index}": str(task.index), "{type}": task.type, **hosts}
    first, *arguments = command
    for name, value in values.items():
        arguments = [word.replace(name, value) for word in arguments]
    return (first, *arguments)


def _executable(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        found, fix = _instead_of(name)
        raise LaunchError("The program to run must be on PATH.", found=found, fix=fix, reason="command")
    return path


def _instead_of(name: str) -> tuple[str, str]:
    """Describe what is there instead of a program, and what to do."""
    if name == "Rscript":
        return "no Rscript", "Install R, or put it on PATH."
    fix = "Give the path of a .py or .R script, or of a command."
    if os.path.isdir(name):
        return f"{name} is a folder", fix
    if not os.path.isfile(name):
        return f"no {name}", f"{_meant(name)}{fix}"
    words = shlex.quote(name)
    if os.access(name, os.X_OK):
        return f"{name} is in the working directory, which is not on PATH", f"Write ./{words}."
    if not name.endswith((".sh", ".bash")):
        return f"{name} is neither a .py or .R script nor a command", fix
    by_shell = Code(
        f'launch("bash", {name!r})',
        f'launch("bash", {r_text(name)})',
        f"tfmuster launch [OPTIONS] -- bash {words}",
    )
    path = "" if os.path.dirname(name) else f" and write ./{words}"
    fix = f"Make it executable (chmod +x {words}){path}, or launch it by its shell: {by_shell}"
    return f"{name} is not executable", fix


def _meant(name: str) -> str:
    """Ask whether a script of that folder is meant, with another ending or a similar name."""
    wanted = Path(name)
    suffixes = (".py", ".r", *_NOTEBOOKS)
    try:
        scripts = sorted(path for path in wanted.parent.iterdir() if path.suffix.lower() in suffixes)
    except OSError:
        return ""
    stem = wanted.stem if wanted.suffix.lower() in suffixes else wanted.name
    near = difflib.get_close_matches(stem, {path.stem for path in scripts}, n=1, cutoff=0.75)
    meant = [str(path) for path in scripts if path.stem in near]
    return f"Did you mean {' or '.join(meant)}? " if meant else ""


#: Programs whose arguments begin with the script or the module that they run.
_INTERPRETERS = re.compile(r"(python|pypy)[\d.]*|Rscript|R|bash|sh")


def script_of(command: Sequence[str]) -> Path | None:
    """Return the script that a command runs, itself or by an interpreter; None without one."""
    program, *arguments = command
    if _INTERPRETERS.fullmatch(Path(program).name):
        # Options of the interpreter may have values, so its script is known by its ending.
        words = itertools.takewhile(lambda word: word not in (MODULE, "-c", "-e"), arguments)
        program = next((word for word in words if Path(word).suffix.lower() in _SCRIPTS), "")
    return Path(program) if Path(program).suffix.lower() in _SCRIPTS else None


def command_name(command: Sequence[str]) -> str:
    """Return the script's name without its extension; that of a module; the verbs of a tfmuster command."""
    program, *arguments = command
    if program == MODULE and arguments:
        return arguments[0]
    if (script := script_of(command)) is not None:
        return script.stem
    if _INTERPRETERS.fullmatch(Path(program).name) and MODULE in arguments[:-1]:
        return arguments[arguments.index(MODULE) + 1]
    verbs = list(itertools.takewhile(str.isalpha, arguments)) if program == "tfmuster" else []
    return "-".join(verbs) or Path(program).stem
