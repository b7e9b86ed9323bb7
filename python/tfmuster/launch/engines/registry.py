"""The engines by name, and which of them can be used from here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, cast

from ...errors import LaunchError
from .base import Engine, UnavailableError, Where

#: The engines: modules of this package, named as ``--backend`` names them. A new one is a file and a word
#: here.
BACKENDS = ("local", "ssh", "spark", "slurm", "sge", "pbs", "lsf", "mpi")
#: How long each may take to tell whether it can be used, seconds.
ANSWER_SECONDS = 5.0
#: Settings that not all engines read, and how an error calls them.
_SETTINGS = {
    "master": "A master or session of Spark",
    "spark": "A master or session of Spark",
    "backend_options": "An option of a backend's own",
}


def engine_for(where: Where) -> Engine:
    """The engine that takes a job there.

    Raises
    ------
    LaunchError
        There is no such engine, or it can't be used so.
    """
    name = where.backend or ("local" if where.hosts is None and where.hostfile is None else "ssh")
    if name not in BACKENDS:
        raise LaunchError(
            f"There is no backend {name!r}.", fix=f"Choose one of {', '.join(BACKENDS)}.", reason="backend"
        )
    module = _module(name)
    for setting, what in _SETTINGS.items():
        if getattr(where, setting) and setting not in module.READS:
            # Nothing would read it: the job would run elsewhere, or otherwise, than its user means.
            raise LaunchError(
                f"{what} needs a backend that reads it.",
                found="no backend" if where.backend is None else f"the backend {name}",
                fix="Name the backend, or leave it out.",
                reason="backend",
            )
    return cast(Engine, module.of(where))


def availability(timeout: float = ANSWER_SECONDS) -> dict[str, str]:
    """For each engine, and for Kubernetes, ``yes`` with what was found, or ``no`` and why.

    Parameters
    ----------
    timeout : float
        How long each may take to answer, seconds. They are asked at the same time.
    """
    from ..manifests import kubernetes

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
