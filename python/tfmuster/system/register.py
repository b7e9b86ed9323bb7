"""Registers of seams: names of other packages that are not public, and what is expected of them.

:mod:`tfmuster.keras_compat.seams` has those of Keras and TensorFlow, :mod:`tfmuster.worker.reticulate` those
of reticulate, :mod:`tfmuster.system.unseeded` that of NumPy.

`check` looks at all rows before anything is replaced, and refuses releases that do not have what an essential
row expects. An optional row that does not fit switches its feature off. `Seam.replace` is the only place that
sets an attribute of another package, and `restore` undoes all of it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from ..errors import DependencyError

#: Oldest and newest release of each package that the tests run with (``make matrix``). Before 3.10 Keras does
#: not keep metrics per replica, before 3.8 it does not scale losses for replicas, and before 3.7 its steps do
#: not report the end of the data: patching those releases would mean writing a new trainer.
TESTED: Final = {
    "keras": ((3, 10), (3, 15)),
    "tensorflow": ((2, 16), (2, 21)),
    "tf_keras": ((2, 16), (2, 21)),
    "jax": ((0, 6), (0, 7)),
    "numpy": ((1, 26), (2, 4)),
    "reticulate": ((1, 28), (1, 46)),
}
_MISSING: Final = object()
_register: list[Seam] = []
_replaced: list[tuple[Any, str, Any]] = []


# Rows are told apart by identity.
@dataclass(eq=False, repr=False)
class Seam:
    """A name of another package."""

    #: Its module and its place there, such as ``keras.src.losses.loss:Loss.__call__``.
    where: str
    why: str
    _: KW_ONLY
    #: Parameters that it must have. It may have others.
    takes: tuple[str, ...] = ()
    #: Whether training is wrong, or fails, without it. Else a feature is left out.
    essential: bool = True
    #: Backend of Keras with which tfmuster needs it: "tensorflow", "jax", or None for the module's, or any.
    backend: str | None = None

    def __post_init__(self) -> None:
        self.module, _, self.path = self.where.partition(":")
        if known := re.match(r"keras\.src\.backend\.(tensorflow|jax)\b", self.module):
            self.backend = known[1]
        _register.append(self)

    def __repr__(self) -> str:
        return self.where

    @property
    def name(self) -> str:
        """The last part of its place."""
        return self.path.rpartition(".")[2]

    @property
    def package(self) -> str:
        """The package to which it belongs, such as ``keras``, ``tensorflow`` or ``reticulate``."""
        name = self.module.partition(".")[0]
        return "reticulate" if name in ("rpycall", "rpytools") else name

    @property
    def packages(self) -> set[str]:
        """The packages with which it is checked: its own, and the backend of Keras that it is for."""
        return {self.package, self.backend or self.package}

    def owner(self) -> Any:
        """Return the object that has the name."""
        owner: Any = importlib.import_module(self.module)
        for parent in self.path.split(".")[:-1]:
            owner = getattr(owner, parent)
        return owner

    def get(self) -> Any:
        """Return what has this name now."""
        return getattr(self.owner(), self.name)

    @property
    def replaced(self) -> bool:
        """Whether something else has this name."""
        owner = self.owner()
        return any(known is owner and name == self.name for known, name, _ in _replaced)

    @property
    def fits(self) -> bool:
        """Whether it is as expected. What needs an optional row asks first."""
        return self.misfit() is None

    def misfit(self) -> str | None:
        """Return what is not as expected; None if all is."""
        try:
            value = self.get()
        except (ImportError, AttributeError):
            return "it is missing"
        missing = [name for name in self.takes if name not in _parameters(value)] if self.takes else []
        return f"it takes no {', '.join(missing)}" if missing else None

    def assign(self, value: object) -> None:
        """Set the value of this name, which is its package's to change, too; `restore` leaves it."""
        setattr(self.owner(), self.name, value)

    def replace(self, new: object) -> None:
        """Give this name to something else."""
        _replace(self.owner(), self.name, new)

    def wrap(self, new: Callable[..., Any]) -> None:
        """Give this name to a function around the one that has it. It is a decorator of the new one."""
        self.replace(functools.wraps(self.get())(new))

    def replace_in(self, owner: type, new: object) -> None:
        """Give the name to something else in another class, which has it, too."""
        _replace(owner, self.name, new)

    def add(self, name: str, new: object) -> None:
        """Give the class of this name a method that it lacks, or a better one."""
        _replace(self.get(), name, new)

    def replace_everywhere(self, new: object) -> None:
        """Put a function in place of this one in all imported modules of its package.

        The module that defines it is one of them. TensorFlow makes modules of its API anew, such as
        ``tf.saved_model`` when something imports ``tensorflow.saved_model``; they take it from there.
        """
        stock, package, attribute = self.get(), self.package, self.name
        inside = f"{package}."
        for name, module in list(sys.modules.items()):
            known = name == package or name.startswith(inside)
            if known and getattr(module, "__dict__", {}).get(attribute) is stock:
                _replace(module, attribute, new)


class Private(Seam):
    """An attribute with an underscore that the objects of a class have: ``module:Model._attribute``."""

    def of(self, owner: object, *default: object) -> Any:
        """Return the attribute of an object; a default, if one is given and the object has none."""
        return getattr(owner, self.name, *default)

    def has(self, owner: object) -> bool:
        """Return whether an object has the attribute."""
        return hasattr(owner, self.name)

    def set(self, owner: object, value: object) -> None:
        """Set the attribute of an object."""
        setattr(owner, self.name, value)

    def unset(self, owner: object) -> None:
        """Let an object have the attribute of its class again."""
        delattr(owner, self.name)

    def misfit(self) -> str | None:
        """Return None if the class has the attribute, or one of its methods uses it."""
        try:
            owner = self.owner()
        except (ImportError, AttributeError):
            return "its class is missing"
        if hasattr(owner, self.name):
            return super().misfit()
        return None if isinstance(owner, type) and self.name in _names_in(owner) else "it is missing"


def rows() -> Iterator[Seam]:
    """Yield all rows, in their order."""
    yield from _register


def check(packages: Iterable[str]) -> list[Seam]:
    """Return the optional rows that do not fit, for packages that the process has imported.

    Raises DependencyError if essential rows do not fit (reason ``seams``). Nothing has been replaced then.
    """
    known = set(packages)
    considered = [row for row in _register if row.packages <= known]
    require(row for row in considered if row.essential)
    return [row for row in considered if not row.essential and not row.fits]


def require(needed: Iterable[Seam]) -> None:
    """Raise DependencyError (reason ``seams``) for releases in which some of these rows do not fit."""
    misfits = {row: why for row in needed if (why := row.misfit())}
    if not misfits:
        return
    packages = sorted({row.package for row in misfits})
    tested = ((name.replace("_", "-"), *TESTED[name]) for name in packages)
    releases = (f"'{name}>={a}.{b},<{c}.{d + 1}'" for name, (a, b), (c, d) in tested)
    raise DependencyError(
        f"tfmuster can't repair this release of {' and '.join(packages)} for several workers.",
        found="; ".join(f"{row}: {why}" for row, why in misfits.items()),
        fix=f"install a tested release: pip install {' '.join(releases)}",
        package=packages[0],
        reason="seams",
    )


def _replace(owner: Any, name: str, new: object) -> None:
    """Set an attribute of another package so that `restore` can undo it."""
    _replaced.append((owner, name, vars(owner).get(name, _MISSING)))
    setattr(owner, name, new)


def restore() -> None:
    """Undo all replacements, the last one first."""
    while _replaced:
        owner, name, stock = _replaced.pop()
        if stock is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, stock)


def _parameters(function: Callable[..., object]) -> Iterable[str]:
    try:
        return inspect.signature(inspect.unwrap(function)).parameters
    except (TypeError, ValueError):
        return ()


@functools.cache
def _names_in(owner: type) -> set[str]:
    """Return the names of attributes that the methods of a class and of its bases use."""
    methods = [value for kind in owner.__mro__ for value in vars(kind).values() if callable(value)]
    codes = [getattr(inspect.unwrap(method), "__code__", None) for method in methods]
    return {name for code in codes if code is not None for name in code.co_names}
