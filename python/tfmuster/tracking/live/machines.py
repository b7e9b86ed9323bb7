"""Record and read the hardware of each worker, in ``states/worker-0.machine`` of the run directory."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...system.limits import total_memory, usable_cores
from ..record.layout import STATES, read_json, task_of, task_order, write_json
from ..record.recording import is_a, list_of
from .states import own_state_path

#: Not ``.json``: those files are states.
_SUFFIX = ".machine"


def say_machine(gpus: Sequence[str]) -> None:
    """Record this process's machine, if it is a worker of ``tfmuster launch``. Ignore write errors.

    `gpus` are the models of the GPUs that the worker uses.
    """
    if path := own_state_path():
        machine = {"host": socket.gethostname(), "cores": usable_cores(), "memory": total_memory()}
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            write_json(path.with_suffix(_SUFFIX), {**machine, "gpus": list(gpus)})


def read_machines(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Read the machine of each task: ``host``, ``cores``, ``memory`` (bytes) and ``gpus`` (their models)."""
    kinds = {"host": is_a(str), "cores": is_a(int), "memory": is_a(int), "gpus": list_of(is_a(str))}
    machines = {}
    for path in sorted(run_dir.joinpath(STATES).glob(f"*{_SUFFIX}"), key=lambda path: task_order(path.stem)):
        machine = read_json(path)
        if all(name in machine and fits(machine[name]) for name, fits in kinds.items()):
            machines[task_of(path.stem)] = {name: machine[name] for name in kinds}
    return machines
