"""Say with how many workers this process must train one model."""

from __future__ import annotations

import functools
import os

from ..environment import INDEPENDENT_VARIABLE, is_on
from ..errors import ClusterError
from ..options.hints import Hint
from ..system.say import say
from .tf_config import is_chief, parse_tf_config

#: Types of the tasks that train one model together.
TRAINING = ("chief", "worker")

_told: list[int] = []


def workers_together() -> int:
    """Return how many workers must train one model together; 0 if this process may train its own.

    With ``TFMUSTER_INDEPENDENT`` it may, and the first call says so on the chief.
    """
    workers = workers_here()
    if workers < 2 or not is_on(INDEPENDENT_VARIABLE):
        return workers
    if not _told:
        _told.append(workers)
        if is_chief():
            independent = Hint("independent", True)
            say(f"tfmuster: each of the {workers} workers trains a model of its own ({independent})")
    return 0


def workers_here() -> int:
    """Return the number of workers of the job that train, this process included; 0 if it does not train.

    It is 0 without a cluster, for a parameter server and an evaluator, and with an invalid TF_CONFIG, which
    is an error only for a program that makes a strategy.
    """
    return _workers(os.environ.get("TF_CONFIG", "").strip())


@functools.lru_cache(maxsize=4)
def _workers(text: str) -> int:
    if text in ("", "{}"):
        return 0
    try:
        task = parse_tf_config(text)
    except ClusterError:
        return 0
    if task.type not in TRAINING:
        return 0
    return sum(len(task.cluster.jobs.get(kind, ())) for kind in TRAINING)
