"""The list of all cases, and what a case returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a case leaves: compared between one process and several workers."""

    model: Any = None
    history: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A program with what several workers may change about its result.

    Attributes
    ----------
    name : str
    module : str
        Module of ``cases`` that has it.
    run : callable
        Gets a folder of its own, which does not exist, and returns a `Result`.
    tolerance : float
        Largest difference of weights from those of one process.
    differs : str or None
        Why one process has another result. The workers must still agree, bit for bit.
    """

    name: str
    module: str
    run: Callable[[Path], Result]
    tolerance: float = 1e-5
    differs: str | None = None


_CASES: dict[str, Case] = {}


def add(name: str, run: Callable[[Path], Result], **expected: Any) -> None:
    """Register a case of the module that defines ``run``."""
    if name in _CASES:
        raise ValueError(f"there are two cases {name}")
    _CASES[name] = Case(name, run.__module__.rpartition(".")[2], run, **expected)


def case(**expected: Any) -> Callable[[Callable[[Path], Result]], Callable[[Path], Result]]:
    """Register the decorated function as a case with its own name."""

    def decorate(run: Callable[[Path], Result]) -> Callable[[Path], Result]:
        add(run.__name__, run, **expected)
        return run

    return decorate


#: Set, it runs every case. By default, of the modules with many cases of one kind every third one is run.
EVERY_CASE = "TFMUSTER_EVERY_CASE"
MANY_OF_ONE_KIND = ("layers", "optimizers")
FEWER_ON_FOUR_WORKERS = 12


def registered(modules: Iterable[str]) -> list[Case]:
    """Return the cases of these modules, which are imported, in the order of their definition."""
    chosen = []
    for module in modules:
        cases = [case for case in _CASES.values() if case.module == module]
        part = module in MANY_OF_ONE_KIND and not os.environ.get(EVERY_CASE)
        chosen += cases[::3] if part else cases
    return chosen


def on_four_workers(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that are run on four workers, too: by default, one of many."""
    cases = list(cases)
    return cases if os.environ.get(EVERY_CASE) else cases[::FEWER_ON_FOUR_WORKERS]


def named(name: str) -> Case:
    """Return a case of a module that is imported."""
    return _CASES[name]
