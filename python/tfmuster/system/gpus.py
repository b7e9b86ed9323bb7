"""Distribute this machine's GPUs among its tasks by CUDA_VISIBLE_DEVICES.

TensorFlow takes all memory of every GPU that it sees, so two workers that see the same GPU fail.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ..errors import LaunchError
from .ask import NoAnswerError, ask

VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_GPU = "-1"
#: How long the driver may take to answer, in seconds. Without persistence mode it first wakes every GPU.
_ASK_SECONDS = 20.0
#: Types of the tasks that compute. The others get no GPU.
_COMPUTING = ("chief", "worker")


def assign_gpus(
    kinds: Sequence[str], per_worker: int | None, environ: Mapping[str, str] = os.environ
) -> list[dict[str, str]]:
    """Choose the GPUs of each task on one machine, as variables for its environment.

    `kinds` has the type of each task. `per_worker` is the number for each worker and for the chief; 0 hides
    all. With None, each gets one GPU if there are exactly as many as workers; otherwise the environment stays
    as it is. If `environ` sets ``CUDA_VISIBLE_DEVICES``, only those GPUs are distributed. Raises LaunchError
    if there are too few GPUs.
    """
    if per_worker == 0:
        return [{VISIBLE: NO_GPU} for _ in kinds]
    computing = sum(kind in _COMPUTING for kind in kinds)
    gpus = visible_gpus(environ)
    if per_worker is None and (len(gpus) != computing or not gpus):
        return [{} for _ in kinds]
    share = per_worker or 1
    if share * computing > len(gpus):
        most = len(gpus) // share
        raise LaunchError(
            "Every worker must have GPUs of its own.",
            found=f"{_count(len(gpus), 'GPU')} for {_count(computing, 'worker')} with {share} each",
            fix=f"Start at most {_count(most, 'worker')} on this machine, or give each fewer GPUs."
            if most
            else f"Give each fewer GPUs; `nvidia-smi -L` lists them, {VISIBLE} restricts them.",
            reason="gpus",
        )
    rest = iter(gpus)
    return [
        {VISIBLE: ",".join(next(rest) for _ in range(share)) if kind in _COMPUTING else NO_GPU}
        for kind in kinds
    ]


def visible_gpus(environ: Mapping[str, str] = os.environ) -> list[str]:
    """List the GPUs of this machine that a program would see, as CUDA_VISIBLE_DEVICES names them.

    Without that variable, these are the GPUs that ``nvidia-smi`` lists. The list is empty if that program is
    missing or does not answer. TensorFlow is not asked, because it would keep the GPUs for this process.
    """
    if VISIBLE in environ:
        names = [name.strip() for name in environ[VISIBLE].split(",")]
        # CUDA ignores the first invalid name and all names after it.
        end = next((at for at, name in enumerate(names) if name in ("", NO_GPU)), len(names))
        return names[:end]
    try:
        answer = ask("nvidia-smi", "-L", seconds=_ASK_SECONDS, env=environ)
    except NoAnswerError:
        return []
    if answer.code != 0:
        return []
    # nvidia-smi numbers GPUs by PCI bus, and CUDA may not. Each worker gets different ones in either case.
    return re.findall(r"^GPU (\d+):", answer.output, flags=re.MULTILINE)


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
