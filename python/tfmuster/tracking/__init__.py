"""Create, write, read, follow and end runs, each stored in a run directory.

``tfmuster.runs()`` lists runs, although it is this package: see :func:`tfmuster.tracking.show.listing.list_runs`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..system.callable_module import CallableModule

if TYPE_CHECKING:
    from .run import Run


class _CallableModule(CallableModule):
    """Make this package callable: once a module of it is imported, ``tfmuster.runs`` is the package."""

    def __call__(self, folder: str | os.PathLike[str] | None = None, *, all: bool = False) -> list[Run]:
        from .show.listing import list_runs

        return list_runs(folder, all=all)


sys.modules[__name__].__class__ = _CallableModule
#: The public name of the package is that of the function.
runs = sys.modules[__name__]
