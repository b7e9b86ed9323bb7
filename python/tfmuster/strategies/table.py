"""List the strategies, and whether each would work on this machine. Does not import TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cluster.tf_config import current_task
from ..errors import TfmusterError
from ..options.hints import Hint, Launch
from ..system.gpus import visible_gpus
from ..system.tensorflow_import import is_installed
from ..words import Argument, Words, now

_TPU_NEEDS = Words(
    "TensorFlow needs a Cloud TPU: a TPU VM ({}), or the name of a TPU of the project",
    Argument("tpu", "local"),
)


def strategy_table(environ: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """List what each strategy trains with, and whether it would work here.

    Parameters
    ----------
    environ : mapping of str, optional
        Environment variables to read. Default: those of this process.

    Returns
    -------
    list of dict
        For each strategy: ``strategy``, its name; ``fit``, the function that trains a Keras 3 model under it;
        ``custom_loop``, whether it supports a loop with :func:`tfmuster.distributed_step`; ``here``, whether
        it would work in this process; ``why``, the devices it would use, or what is missing.
    """
    environ = os.environ if environ is None else environ
    gpus = len(visible_gpus(environ))
    devices = (
        f"{gpus} GPU{'s' if gpus > 1 else ''}"
        if gpus
        else Words("the CPU; with {}, two logical CPUs", Argument("replicas", 2))
    )
    one = "the first GPU" if gpus else "the CPU"
    rows = [
        ("default", "fit", "yes", None, one),
        ("one_device", "fit", "yes", None, one),
        ("mirrored", "fit", "yes", None, devices),
        ("central_storage", "fit", "yes", None, devices),
        ("multi_worker_mirrored", "fit", "yes", *_in_cluster(environ, ps=False)),
        ("parameter_server", "ps_fit", "yes", *_in_cluster(environ, ps=True)),
        ("tpu", "not tried", "not tried", *_tpu(environ)),
    ]
    if not is_installed("tensorflow"):
        rows = [(*row[:3], "TensorFlow is not installed", "") for row in rows]
    return [
        {
            "strategy": name,
            "fit": fit,
            "custom_loop": loop,
            "here": missing is None,
            "why": str(now(missing if missing is not None else found)),
        }
        for name, fit, loop, missing, found in rows
    ]


def _in_cluster(environ: Mapping[str, str], *, ps: bool) -> tuple[str | None, str]:
    """Return what is missing, or None, and what was found."""
    start = Launch((Hint("workers", 2), *([Hint("ps", 1)] if ps else [])))
    try:
        task = current_task(dict(environ))
    except TfmusterError as error:
        return f"TF_CONFIG is wrong: {error.message}", ""
    if task is None:
        return f"needs a cluster: {start}", ""
    servers = bool(task.cluster.jobs.get("ps"))
    if ps and not (servers and task.cluster.jobs.get("worker")):
        return f"the cluster has no ps: {start}", ""
    if not ps and task.type not in ("chief", "worker"):
        return f"this is {task.name}, and chief and workers train", ""
    return None, f"this is {task.name} of {len(task.cluster)} tasks"


def _tpu(environ: Mapping[str, str]) -> tuple[str | None, str]:
    named = environ.get("TPU_NAME") or environ.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
    if named:
        return None, f"the TPU {named}, if it can be reached"
    if any(Path("/dev").glob("accel[0-9]*")) or any(Path("/dev/vfio").glob("[0-9]*")):
        return None, "an accelerator of this machine, if it is a TPU"
    return _TPU_NEEDS, ""
