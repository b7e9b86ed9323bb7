"""Find engines by name, and check which of them can be used on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...errors import LaunchError
from ...options.hints import Hint
from ...options.table import BACKENDS, PLACES, ROWS, Local, Place, Ssh
from ...words import Value, Words, choice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .base import Engine

#: Time limit of each engine's availability check, in seconds.
ANSWER_SECONDS = 5.0


def place_for(backend: str | None, settings: Mapping[str, Any]) -> Place:
    """Return the place of an engine by its name, with the settings that it knows.

    Raises
    ------
    LaunchError
        There is no such engine, or it does not know a setting (reason ``backend``), or a value is refused.
    """
    has_hosts = any(settings.get(name) is not None for name in ("hosts", "hostfile", "hosts_from"))
    name = backend or (Ssh if has_hosts else Local).backend
    place = next((place for place in PLACES if place.backend == name), None)
    if place is None:
        raise LaunchError(
            Words("There is no backend {}.", Value(name)), fix=choice(name, BACKENDS), reason="backend"
        )
    known = {}
    for setting, value in settings.items():
        if setting in place.ROWS:
            known[setting] = value
        elif value and value != ROWS[setting].default and not ROWS[setting].else_ignored:
            # If the setting were ignored, the job would run differently than its user expects.
            *others, last = (place.backend for place in PLACES if setting in place.ROWS)
            readers = f"{', '.join(others)} or {last}" if others else last
            raise LaunchError(
                Words("{} needs a backend that reads it.", Hint(setting)),
                found="no backend" if backend is None else f"the backend {name}",
                fix=f"Choose the backend {readers}, or leave the setting out.",
                reason="backend",
            )
    return place(**known)


def engine_for(place: Place) -> Engine:
    """Make the engine of a place.

    Raises
    ------
    LaunchError
        If it does not support the settings.
    """
    engine: Engine = _module(place.backend).of(place)
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
