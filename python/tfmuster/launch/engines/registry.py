"""Find engines by name, and check which of them can be used on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...errors import LaunchError
from ...words import Value, Words, choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from .base import Engine, Where

#: The engines: modules of this package, with the names that ``--backend`` takes. To add one, add its module
#: and its name here.
BACKENDS = ("local", "ssh", "spark", "slurm", "sge", "pbs", "lsf", "mpi")
#: Time limit of each engine's availability check, in seconds.
ANSWER_SECONDS = 5.0
#: Settings that not all engines read, and their names in an error.
_SETTINGS = {
    "master": "A Spark master or session",
    "spark": "A Spark master or session",
    "backend_options": "A backend option",
    "isolated": "A network of the job's own (isolated)",
    "warm": "Keeping spare processes (warm)",
    "oversubscribe": "Starting more workers than the machine carries (oversubscribe)",
    "requeue": "Requeuing (requeue)",
    "hosts_from": "Asking a command for hosts (hosts_from)",
    "grow": "Continuing with more workers (grow)",
    "min_workers": "Continuing with fewer workers (min_workers)",
}


def engine_for(where: Where) -> Engine:
    """Make the engine for the user's settings.

    Raises
    ------
    LaunchError
        If there is no such engine, or it does not support the settings.
    """
    has_hosts = any(each is not None for each in (where.hosts, where.hostfile, where.hosts_from))
    name = where.backend or ("ssh" if has_hosts else "local")
    if name not in BACKENDS:
        raise LaunchError(
            Words("There is no backend {}.", Value(name)),
            fix=choice(name, BACKENDS),
            reason="backend",
        )
    module = _module(name)
    for setting, what in _SETTINGS.items():
        if getattr(where, setting) and setting not in module.READS:
            # If the setting were ignored, the job would run differently than its user expects.
            raise LaunchError(
                f"{what} needs a backend that reads it.",
                found="no backend" if where.backend is None else f"the backend {name}",
                fix="Name the backend, or leave the setting out.",
                reason="backend",
            )
    engine: Engine = module.of(where)
    return engine


def availability(timeout: float = ANSWER_SECONDS) -> dict[str, str]:
    """Check which engines can be used, and Kubernetes: ``yes`` with what was found, or ``no`` and why.

    Parameters
    ----------
    timeout : float
        Time limit of each check, in seconds. The checks run at the same time.
    """
    from concurrent.futures import ThreadPoolExecutor

    from ..manifests import kubernetes
    from .base import UnavailableError

    asked: dict[str, Callable[[float], str]] = {name: _module(name).available for name in BACKENDS}
    asked["kubernetes"] = kubernetes.available

    def answer(ask: Callable[[float], str]) -> str:
        try:
            found = ask(timeout)
        except UnavailableError as problem:
            return f"no: {problem}"
        return f"yes: {found}" if found else "yes"

    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(answer, asked.values()), strict=True))


def _module(name: str) -> Any:
    return import_module(f".{name}", __package__)
