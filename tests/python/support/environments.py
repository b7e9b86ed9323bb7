"""Small virtual environments, which have links to packages of this one."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

_PACKAGES = Path(sysconfig.get_path("platlib"))
#: What every worker imports, and what the command line or R needs besides.
OF_WORKERS = ("orjson", "psutil")
OF_THE_COMMAND = (*OF_WORKERS, "click", "cloudpickle", "numpy", "numpy.libs")


def make_environment(folder: Path, *packages: str, tensorflow: bool = False) -> Path:
    """Make a virtual environment with some packages, and return its Python.

    Its TensorFlow is an empty package: it is there to be found.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        (site_packages / name).symlink_to(_PACKAGES / name)
    if tensorflow:
        (site_packages / "tensorflow").mkdir()
        (site_packages / "tensorflow" / "__init__.py").touch()
    return folder / "bin" / "python"
