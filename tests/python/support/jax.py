"""Run programs on JAX, which has a Python of its own: ``make .stamps/jax``."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.launching import environment
from support.paths import ROOT

#: It has the packages of .venv, too.
PYTHON = ROOT / ".venvs" / "jax" / "bin" / "python"
ENVIRONMENT = {"KERAS_BACKEND": "jax", "PYTHONWARNINGS": "ignore"}


def run(*arguments: object, cwd: Path, limit: float = 150, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the Python with JAX, for Keras on JAX unless the environment names another backend."""
    return subprocess.run(
        [str(PYTHON), *map(str, arguments)],
        cwd=cwd,
        env=environment(**{**ENVIRONMENT, **env}),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def launch(*arguments: object, cwd: Path, **more: object) -> subprocess.CompletedProcess[str]:
    """Run ``tfmuster launch -n 2``."""
    return run("-m", "tfmuster", "launch", "-n", 2, *arguments, cwd=cwd, **more)  # type: ignore[arg-type]
