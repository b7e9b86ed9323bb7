"""Find the Python, the R and the copy of tfmuster that run here, so that child processes use the same."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..environment import HASH_SEED, PROCESS_VARIABLE, TF_CONFIG_VARIABLE, given_hash_seed
from ..net.addresses import proxy_exceptions
from .ask import NoAnswerError, ask

_PACKAGE = Path(__file__).resolve().parent.parent
#: The folder whose `sitecustomize` prepares the Pythons of workers.
SITE = _PACKAGE / "worker" / "site"


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


def worker_environment(environment: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Copy an environment, and prepare it for every Python of a worker, including the one inside R.

    `hosts` are those of the job's tasks, as far as they are known.
    """
    environment = with_tfmuster_on_path(environment, SITE)
    environment |= proxy_exceptions(environment, hosts)
    # Layers and vocabularies made from a set are in its order, which must be that of the other workers.
    environment[HASH_SEED] = given_hash_seed(environment) or "0"
    # The launcher may itself be a worker.
    for name in (PROCESS_VARIABLE, TF_CONFIG_VARIABLE):
        environment.pop(name, None)
    if environment.get("TF_CONFIG"):
        environment[TF_CONFIG_VARIABLE] = environment["TF_CONFIG"]
    # R sources the file that R_TESTS names before any profile, also with --vanilla.
    environment["R_TESTS"] = str(SITE / "startup.R")
    # Lines appear when they are written, and are not lost when the worker is killed.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    # A character that the user's encoding lacks must not end the training of all workers. Whoever names a
    # handler of errors, such as strict, has chosen what happens.
    if (encoding := environment.get("PYTHONIOENCODING")) and ":" not in encoding:
        environment["PYTHONIOENCODING"] = f"{encoding}:backslashreplace"
    # reticulate treats an empty string as a path.
    if not environment.get("RETICULATE_PYTHON"):
        environment["RETICULATE_PYTHON"] = python_executable()
    return environment
