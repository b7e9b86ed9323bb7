"""The Python and the copy of tfmuster that run here, for processes that are to use the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
#: The folder whose `sitecustomize` prepares the Pythons of workers.
SITE = _PACKAGE / "launch" / "site"


def python_executable() -> str:
    """The executable of this Python, also inside R, where `sys.executable` may be R's."""
    if Path(sys.executable or "").name.lower().startswith("python"):
        return sys.executable
    return str(Path(sys.prefix, "bin", f"python{sys.version_info.major}"))


def with_package(environment: Mapping[str, str], *first: Path) -> dict[str, str]:
    """A copy of an environment in which Python finds the folders `first`.

    And this tfmuster, if it is not installed.
    """
    folders = [str(folder) for folder in first]
    folders += filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    root = _PACKAGE.parent
    if root.name not in ("site-packages", "dist-packages") and str(root) not in folders:
        folders.append(str(root))
    environment = dict(environment)
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment
