"""Find the Python, the R and the copy of tfmuster that run here, so that child processes use the same."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from .ask import NoAnswerError, ask

_PACKAGE = Path(__file__).resolve().parent.parent


def python_executable() -> str:
    """Return the executable of this Python, also inside R, where `sys.executable` may be R's."""
    if Path(sys.executable or "").name.lower().startswith("python"):
        return sys.executable
    return str(Path(sys.prefix, "bin", f"python{sys.version_info.major}"))


def run_module(module: str, python: str | None = None) -> list[str]:
    """Return the command that runs a module with this Python, but none from the working directory.

    ``python -m`` looks there first, so that a file ``psutil.py`` in a shared folder would be run. Another
    `python`, on another machine, may be older than the option that prevents it.
    """
    if python is None and sys.version_info >= (3, 11):
        return [python_executable(), "-P", "-m", module]
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return run_code(code, python)


def run_code(code: str, python: str | None = None) -> list[str]:
    """Return the command that runs code with this Python, and imports nothing from the working directory."""
    if python is None and sys.version_info >= (3, 11):
        return [python_executable(), "-P", "-c", code]
    code = f"import sys; sys.path = [entry for entry in sys.path if entry]; exec({code!r})"
    return [python or python_executable(), "-c", code]


def rscript_executable() -> str | None:
    """Find Rscript: inside R, which sets R_HOME, that of the running R; otherwise the one on PATH."""
    of_r = Path(os.environ.get("R_HOME", ""), "bin", "Rscript.exe" if os.name == "nt" else "Rscript")
    return str(of_r) if of_r.is_absolute() and of_r.is_file() else shutil.which("Rscript")


def r_version() -> str | None:
    """Return R's major.minor version, which decides whether its packages can be loaded; None without R."""
    if (rscript := rscript_executable()) is None:
        return None
    try:
        answer = ask(rscript, "--version", seconds=20)
    except NoAnswerError:
        return None
    # R before 4.3 prints its version on standard error.
    match = re.search(r"version (\d+\.\d+)", answer.output + answer.errors)
    return match and match[1]


def package_root() -> str | None:
    """Return the folder that must be on `sys.path` to import this tfmuster; None if it is installed."""
    root = _PACKAGE.parent
    return None if root.name in ("site-packages", "dist-packages") else str(root)


def with_tfmuster_on_path(environment: Mapping[str, str], *first: Path) -> dict[str, str]:
    """Copy an environment; add the folders `first`, and tfmuster's if not installed, to its PYTHONPATH."""
    folders = [str(folder) for folder in first]
    folders += filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if (root := package_root()) and root not in folders:
        folders.append(root)
    environment = dict(environment)
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment
