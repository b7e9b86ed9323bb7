"""Let a package of the same name as one of its functions be called like it."""

from __future__ import annotations

import importlib
import types
from typing import Any


class CallableModule(types.ModuleType):
    """A module with a ``__call__``. It is pickled by its name, as every module is by cloudpickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)
