"""Refuse more workers than this machine carries, before anything starts."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import LaunchError
from ..options.hints import Hint
from ..system.limits import free_memory, usable_cores
from ..words import Words

if TYPE_CHECKING:
    from .job import Job

_FOR_EACH_CORE: Final = 4
#: Memory that a worker has for itself, in MB: without, and with a small model in TensorFlow 2.21 and Keras
#: 3.15 (the private memory of workers on Debian 12).
_PYTHON: Final = (6, 300)
_R: Final = (40, 490)
#: What a script that uses TensorFlow names. The scripts that call functions name tfmuster.
_USES_TENSORFLOW: Final = re.compile(r"\b(tensorflow|keras3?|tfmuster|jax)\b")


def check_capacity(job: Job) -> None:
    """Check that the processor and the free memory of this machine carry all tasks of a job.

    A program needs at least the memory of its language and, if its script names one of them, of TensorFlow,
    Keras or JAX. What its data and its model need is not known.

    Raises
    ------
    LaunchError
        There are more than four tasks for a core, or they need more than the free memory (reason
        ``oversubscribed``).
    """
    tasks, cores = sum(job.sizes().values()), usable_cores()
    free, each = free_memory() >> 20, least_memory(job.command[0])
    most = min(_FOR_EACH_CORE * cores, free // each)
    if tasks <= most:
        return
    if tasks > _FOR_EACH_CORE * cores:
        found = f"processes: {tasks}, cores: {cores}, of which each carries {_FOR_EACH_CORE}"
    else:
        found = f"processes: {tasks}, of {each} MB or more each; free memory: {free} MB"
    fewer = f"Start at most {most} processes" if most else "Free some memory"
    raise LaunchError(
        "This machine must carry all processes of a job.",
        found=found,
        fix=Words(
            "{}, or use other machines. To start all here, set {}.", fewer, Hint("oversubscribe", True)
        ),
        reason="oversubscribed",
    )


def least_memory(program: str) -> int:
    """Return how much memory a process of a program needs at least, in MB."""
    suffix = Path(program).suffix.lower()
    text = program
    if suffix in (".py", ".r"):
        with contextlib.suppress(OSError):
            text = Path(program).read_text(encoding="utf-8", errors="replace")
    alone, with_tensorflow = _R if suffix == ".r" else _PYTHON
    return with_tensorflow if _USES_TENSORFLOW.search(text) else alone
