"""Refuse more processes than a machine carries, and start many a few at a time."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..environment import DEFAULT_SECONDS, START_TIMEOUT_VARIABLE
from ..errors import LaunchError
from ..options.hints import Hint
from ..system.limits import free_memory, usable_cores
from ..words import Words
from .supervise.worker_process import Placement

_FOR_EACH_CORE: Final = 4
#: Memory that a worker has for itself, in MB: without, and with a small model in TensorFlow 2.21 and Keras
#: 3.15 (the private memory of workers on Debian 12).
_PYTHON: Final = (6, 300)
_R: Final = (40, 490)
#: What a script that uses TensorFlow names. The scripts that call functions name tfmuster.
_USES_TENSORFLOW: Final = re.compile(r"\b(tensorflow|keras3?|tfmuster|jax)\b")
#: How many processes for each core start at the same time.
_AT_ONCE: Final = 2
#: How long the next process waits for an earlier one to start, in seconds, and the longest share of the time
#: limit for all tasks to start that this may take in sum.
_NEXT_SECONDS: Final = 0.5
_SHARE: Final = 0.25


@dataclass(frozen=True)
class Capacity:
    """What a machine has for the processes of a program."""

    cores: int
    #: Free memory, and what each process needs at least, in MB.
    free: int
    least: int

    @property
    def most(self) -> int:
        """How many processes it carries."""
        return min(_FOR_EACH_CORE * self.cores, self.free // self.least)

    def excess(self, count: int) -> str:
        """Return why it does not carry so many processes; "" if it does."""
        if count <= self.most:
            return ""
        if count > _FOR_EACH_CORE * self.cores:
            return f"processes: {count}, cores: {self.cores}, of which each carries {_FOR_EACH_CORE}"
        return f"processes: {count}, of {self.least} MB or more each; free memory: {self.free} MB"


def capacity_for(program: str) -> Capacity:
    """Return what this machine has for the processes of a script, or of another program."""
    return Capacity(usable_cores(), free_memory() >> 20, _least_memory(program))


def check_capacity(program: str, count: int) -> None:
    """Raise LaunchError (reason ``oversubscribed``) if this machine does not carry so many processes."""
    here = capacity_for(program)
    if found := here.excess(count):
        fewer = f"Start at most {here.most} processes" if here.most else "Free some memory"
        raise LaunchError(
            "This machine must carry all processes of a job.",
            found=found,
            fix=Words(
                "{}, or use other machines. To start all here, set {}.", fewer, Hint("oversubscribe", True)
            ),
            reason="oversubscribed",
        )


def at_once(placement: Placement) -> int:
    """Return how many processes start at the same time on the machine of one."""
    return _AT_ONCE * (placement.cores or usable_cores())


def seconds_to_wait(placements: Sequence[Placement]) -> float:
    """Return how long a process waits if as many start on its machine, in seconds."""
    limit = float(placements[0].env.get(START_TIMEOUT_VARIABLE, DEFAULT_SECONDS))
    counts = Counter(placement.host for placement in placements)
    first = {placement.host: at_once(placement) for placement in placements}
    later = sum(max(0, count - first[host]) for host, count in counts.items())
    return min(_NEXT_SECONDS, _SHARE * limit / max(1, later))


def _least_memory(program: str) -> int:
    """Return how many MB a process needs for its language, and for TensorFlow, Keras or JAX if named."""
    suffix = Path(program).suffix.lower()
    text = program
    if suffix in (".py", ".r"):
        with contextlib.suppress(OSError):
            text = Path(program).read_text(encoding="utf-8", errors="replace")
    alone, with_tensorflow = _R if suffix == ".r" else _PYTHON
    return with_tensorflow if _USES_TENSORFLOW.search(text) else alone
