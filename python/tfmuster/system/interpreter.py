"""The Python and the copy of tfmuster that run here, for processes that are to use the same."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from .ask import NoAnswerError, ask

_PACKAGE = Path(__file__).resolve().parent.parent
#: The folder whose `sitecustomize` prepares the Pythons of workers.
SITE = _PACKAGE / "worker" / "site"


def python_executable() -> str:
    """The executable of this Python, also inside R, where `sys.executable` may be R's."""
    if Path(sys.executable or "").name.lower().startswith("python"):
        return sys.executable
    return str(Path(sys.prefix, "bin", f"python{sys.version_info.major}"))


def rscript_executable() -> str | None:
    """Inside R, which sets R_HOME, the Rscript of the R that runs; else the one on PATH, if there is one."""
    own = Path(os.environ.get("R_HOME", ""), "bin", "Rscript.exe" if os.name == "nt" else "Rscript")
    return str(own) if own.is_absolute() and own.is_file() else shutil.which("Rscript")


def r_version() -> str | None:
    """The version of that R, major.minor: that is what decides whether its packages can be loaded.

    None if there is no R, or no answer.
    """
    if (rscript := rscript_executable()) is None:
        return None
    try:
        answer = ask(rscript, "--version", seconds=20)
    except NoAnswerError:
        return None
    # R before 4.3 says it on its standard error.
    found = re.search(r"version (\d+\.\d+)", answer.output + answer.errors)
    return found and found[1]


def package_root() -> str | None:
    """The folder to be on `sys.path` for this tfmuster; None if it is installed."""
    root = _PACKAGE.parent
    return None if root.name in ("site-packages", "dist-packages") else str(root)


def with_tfmuster_on_path(environment: Mapping[str, str], *first: Path) -> dict[str, str]:
    """A copy of an environment in which Python finds the folders `first`.

    And this tfmuster, if it is not installed.
    """
    folders = [str(folder) for folder in first]
    folders += filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if (root := package_root()) and root not in folders:
        folders.append(root)
    environment = dict(environment)
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of an environment that prepares the Pythons of a worker, the one inside R too."""
    environment = with_tfmuster_on_path(environment, SITE)
    # Lines are to be seen when they are written, and not lost when the worker is killed.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    # reticulate takes an empty string for a path.
    if not environment.get("RETICULATE_PYTHON"):
        environment["RETICULATE_PYTHON"] = python_executable()
    return environment
