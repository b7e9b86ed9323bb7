"""What a program, or else its environment, chooses of a multi-worker strategy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..environment import (
    BATCH_NORM_VARIABLE,
    COMMUNICATION_VARIABLE,
    GRADIENT_DTYPE_VARIABLE,
    VERIFICATIONS,
    VERIFY_VARIABLE,
)
from ..errors import StrategyError
from ..words import Value, Words

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class Choice:
    """One of some values, by default the first: an argument of ``strategy()``, or an environment variable."""

    name: str
    variable: str
    values: tuple[str, ...]

    def checked(self, value: str | None = None) -> str:
        """Return a value, by default the environment's; raise a StrategyError if there is no such choice."""
        where = ""
        if value is None:
            value, where = os.environ.get(self.variable) or self.values[0], f" in {self.variable}"
        if value not in self.values:
            name = self.name
            raise StrategyError(
                Words("{} must be one of {}.", name, ", ".join(self.values)),
                found=Words("{}{}", Value(value), where),
                strategy="multi_worker_mirrored",
                reason=name.replace("_", "-"),
            )
        return value

    def set(self, strategy: tf.distribute.Strategy, value: str) -> None:
        """Set what all models of a strategy do."""
        setattr(strategy.extended, self._attribute, self.checked(value))

    def of(self, strategy: tf.distribute.Strategy) -> str:
        """Return what has been set, or else what the environment says, also for programs without tfmuster."""
        return getattr(strategy.extended, self._attribute, None) or self.checked()

    @property
    def _attribute(self) -> str:
        return f"_tfmuster_{self.name}"


COMMUNICATION: Final = Choice(
    "communication", COMMUNICATION_VARIABLE, ("auto", "tcp", "tensorflow", "ring", "nccl")
)
#: The type that gradients are sent as; float32 means the type that they are computed in.
GRADIENT_DTYPE: Final = Choice("gradient_dtype", GRADIENT_DTYPE_VARIABLE, ("float32", "bfloat16", "float16"))
#: Whose rows BatchNormalization normalizes with: those of all workers, or the worker's.
BATCH_NORM: Final = Choice("batch_norm", BATCH_NORM_VARIABLE, ("synchronized", "local"))
#: When first steps are proven.
VERIFY: Final = Choice("verify", VERIFY_VARIABLE, VERIFICATIONS)
