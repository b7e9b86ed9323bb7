"""The names of all batch systems."""

from __future__ import annotations

from importlib import import_module

from tfmuster.launch.engines.batch import BatchEngine
from tfmuster.launch.engines.registry import BACKENDS

for name in BACKENDS:
    import_module(f"tfmuster.launch.engines.{name}")
SYSTEMS = sorted(system.SYSTEM.BACKEND for system in BatchEngine.__subclasses__())
