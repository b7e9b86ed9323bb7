"""The names of all batch systems."""

from __future__ import annotations

from importlib import import_module

from tfmuster.launcher.engines.base import BACKENDS
from tfmuster.launcher.engines.batch import BatchEngine

for name in BACKENDS:
    import_module(f"tfmuster.launcher.engines.{name}")
SYSTEMS = sorted(system.SYSTEM.BACKEND for system in BatchEngine.__subclasses__())
