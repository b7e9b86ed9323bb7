"""What the proof of a step has found, the same on all workers, and what is said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson
import tensorflow as tf

from ...errors import StrategyError
from ...options.hints import Hint
from ...words import Code, Words
from ..losses import loss_parts
from ..losses.loss_reduction import WHOLE_BATCH
from ..process import tell, worker_of
from ..sums.collectives import gather_rows
from .own_parts import is_own, known_differences
from .traced import optimizers_of

if TYPE_CHECKING:
    import keras

_ADVICE: Final = (
    "compute what {} several rows at once with {}, which has the rows of all workers; {} trains with what "
    "the workers compute"
)


@dataclasses.dataclass
class Verdict:
    """What the first worker has found."""

    #: Why there is no proof; None if there is one.
    without: str | None = None
    #: What differs, in words; empty if nothing does.
    text: str = ""
    #: How many gradients and other numbers were compared, and the largest relative difference of a gradient.
    gradients: int = 0
    numbers: int = 0
    largest: float = 0.0
    #: Whether the step draws random numbers from a state of its own, or for the rows of a batch.
    draws_from_state: bool = False
    draws_for_rows: bool = False
    #: Whether nothing differs but what the step changes without an optimizer.
    only_states: bool = False

    def of_first(self, strategy: tf.distribute.Strategy) -> Verdict:
        """Return the verdict of the first worker. All workers must call it."""
        text = orjson.dumps(dataclasses.asdict(self)) if worker_of(strategy)[0] == 0 else b""
        (content,) = gather_rows(strategy, [tf.constant(np.frombuffer(text, np.uint8))])
        return Verdict(**orjson.loads(content.numpy().tobytes()))

    def note(self, step: str, model: keras.Model, *, own_rows: bool, strict: bool) -> None:
        """Note what was found of a step. Raise a StrategyError if it differs by nothing that is known to.

        With ``own_rows``, the rows of its batch have no order. With ``strict``, nothing may differ.
        """
        if self.without is not None:
            tell("proof", f"{step} was not compared with that of one process: {self.without}")
        elif not self.text:
            what = f"{self.gradients} gradients" if self.gradients else f"{self.numbers} numbers"
            tell("proof", f"{step} equal to one process: {what}, largest difference {self.largest:.0e}")
        elif (because := self._known(model, own_rows=own_rows)) and not strict:
            tell("proof", f"{step} is not that of one process, because of {'; '.join(because)}: {self.text}")
        else:
            raise StrategyError(
                f"{step[0].upper()}{step[1:]} is not that of one process.",
                found=self.text,
                fix=Words(
                    _ADVICE,
                    "a layer keeps of" if self.only_states else "looks at",
                    Code("tfmuster.all_rows()", "all_rows()"),
                    Hint("verify", "never"),
                ),
                strategy="multi_worker_mirrored",
                reason="first-step",
            )

    def _known(self, model: keras.Model, *, own_rows: bool) -> list[str]:
        """Return what the step has that differs by design, as docs/concepts/fitting.md says."""
        import keras

        scales = any(isinstance(one, keras.optimizers.LossScaleOptimizer) for one in optimizers_of(model))
        known = {
            "random numbers with a state": self.draws_from_state,
            "random numbers of rows without an order": own_rows and self.draws_for_rows,
            "a loss that is a function of a mean of rows": loss_parts.has_guessed(),
            "LossScaleOptimizer": scales,
        }
        return known_differences(model) + [text for text, present in known.items() if present]


def give_whole_batch(losses: Iterable[keras.losses.Loss]) -> bool:
    """Compute losses of the program with the rows of all workers; return whether one was not yet."""
    own = [loss for loss in losses if is_own(loss) and not getattr(loss, WHOLE_BATCH, False)]
    for loss in own:
        setattr(loss, WHOLE_BATCH, True)
    if own:
        names = ", ".join(sorted({loss.name for loss in own}))
        tell("loss", f"all rows of a batch enter a loss that looks at several at once: {names}")
    return bool(own)
