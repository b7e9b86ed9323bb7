"""Find the Python of a program: this one, or that of its own environment if only that has TensorFlow.

tfmuster may be installed apart from the programs that it runs, as ``pipx`` and ``uv tool`` do.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from .. import __version__
from ..errors import LaunchError
from ..words import Code, Words
from .ask import NoAnswerError, ask
from .interpreter import python_executable, with_tfmuster_on_path
from .tensorflow_import import is_installed

#: Packages that every worker imports; tfmuster itself comes from the launcher if the environment has none.
_NEEDED = ("orjson", "psutil")
#: Prints a JSON list: the modules of the arguments that are missing, and the version of tfmuster, or null.
_QUESTION = """
import importlib.util, json, sys
def found(name):
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None
missing = [name for name in sys.argv[1:] if not found(name)]
version = None
if found("tfmuster"):
    from tfmuster import __version__ as version
print(json.dumps([missing, version]))
"""
#: Time limit of the question, in seconds. The folder may be on a slow file server.
_SECONDS = 30.0
#: Each is the folder of an environment that is active.
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


def script_python(folder: Path) -> str:
    """Return the Python that runs the scripts and modules of a folder.

    It is this Python. If this has no TensorFlow, it is that of the first environment with TensorFlow, in the
    order of uv: ``VIRTUAL_ENV``, ``CONDA_PREFIX``, and ``.venv`` in the folder
    (https://docs.astral.sh/uv/pip/environments/). Raises LaunchError (reason ``python``) if that one can't
    run a worker.
    """
    return _with_tensorflow(*_pythons(*_active(), folder / ".venv"))


def r_python() -> str:
    """Return the Python for R's programs, if RETICULATE_PYTHON names none.

    It is this Python. If this has no TensorFlow, it is that of the first environment with TensorFlow, in this
    order: ``r-tfmuster``, which R's ``install_tfmuster()`` makes, ``VIRTUAL_ENV``, and ``CONDA_PREFIX``.
    """
    # As in reticulate's virtualenv_root().
    roots = (os.environ.get(name) for name in ("RETICULATE_VIRTUALENV_ROOT", "WORKON_HOME"))
    root = Path(next(filter(None, roots), "~/.virtualenvs")).expanduser()
    try:
        return _with_tensorflow(*_pythons(root / "r-tfmuster", *_active()))
    except LaunchError:
        # It can't run a worker. Most programs are not R's, so that is no reason to refuse one.
        return python_executable()


def chosen_by(python: str, *, in_r: bool) -> str | None:
    """Return what has made a Python that of the workers here: a variable, or tfmuster itself."""
    names = ("RETICULATE_PYTHON", *_ACTIVE) if in_r else _ACTIVE
    for name in names:
        if (value := os.environ.get(name)) and python in (value, str(Path(value, "bin", "python"))):
            return name
    return "tfmuster's own" if python == python_executable() else None


@functools.cache
def _with_tensorflow(*others: str) -> str:
    """Return this Python, or the first of others that has TensorFlow if this has none."""
    if is_installed("tensorflow"):
        return python_executable()
    for python in others:
        with contextlib.suppress(NoAnswerError, ValueError):
            # What is asked for is what a worker would find.
            answer = ask(
                *(python, "-c", _QUESTION, "tensorflow", *_NEEDED),
                seconds=_SECONDS,
                env=with_tfmuster_on_path(os.environ),
            )
            missing, version = json.loads(answer.output)
            if "tensorflow" not in missing:
                _check(python, missing, version)
                return python
    return python_executable()


def _active() -> list[Path]:
    return [Path(value) for name in _ACTIVE if (value := os.environ.get(name))]


def _pythons(*environments: Path) -> Iterator[str]:
    """Return the Pythons of environments that are there, but for this one's."""
    for environment in environments:
        python = environment.absolute() / "bin" / "python"
        if python.is_file() and not os.path.samefile(environment, sys.prefix):
            yield str(python)


def _check(python: str, missing: list[str], version: str | None) -> None:
    """Raise LaunchError unless a Python can run a worker."""
    wrong = [f"no {name}" for name in missing]
    if version not in (None, __version__):
        wrong.append(f"tfmuster {version}")
    if wrong:
        raise LaunchError(
            "The Python that has TensorFlow must be able to run a worker.",
            found=f"{python} has TensorFlow, but {', '.join(wrong)}; {python_executable()} has tfmuster "
            f"{__version__}, but no TensorFlow",
            fix=Words(
                "Install it there: {} -m pip install tfmuster=={}. To choose a Python yourself: {}",
                *(shlex.quote(python), __version__, WITH_PYTHON),
            ),
            reason="python",
        )


#: How a script is launched with a Python that the user chooses.
WITH_PYTHON = Code(
    'launch("PATH/TO/PYTHON", "script.py")',
    'launch("PATH/TO/PYTHON", "script.py")',
    "tfmuster launch [OPTIONS] -- PATH/TO/PYTHON script.py",
)
