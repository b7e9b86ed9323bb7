"""Create, write, read, follow and end runs, each stored in a run directory."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import Run

__all__ = ["runs"]


class _CallablePackage(types.ModuleType):
    """Make this package callable: `tfmuster.runs` is the package, and lists runs if it is called."""

    def __call__(self, *args: Any, **options: Any) -> list[Run]:
        from .listing import runs

        return runs(*args, **options)


runs = sys.modules[__name__]
runs.__class__ = _CallablePackage
