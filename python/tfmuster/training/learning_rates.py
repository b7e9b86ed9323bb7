"""Scale the learning rate when several workers make the global batch larger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ModelError
from ..words import Value

if TYPE_CHECKING:
    import keras


def scaled_learning_rate(
    learning_rate: float, factor: int, warmup_steps: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """Return a schedule that warms up to ``learning_rate * factor``: the linear scaling rule.

    If the global batch is ``factor`` times as large, an epoch has that many times fewer steps. The rule keeps
    the total change of the weights per epoch about equal. Without a warm-up, the first steps would be too
    large. Source: Goyal et al. (2017), Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour,
    arXiv:1706.02677, sections 2.1 and 2.2. The paper warms up for 5 of 90 epochs. It finds that the rule
    holds for SGD with batches up to about 8,000; measure with other optimizers.

    Parameters
    ----------
    learning_rate : float
        Learning rate for the batch of one worker.
    factor : int
        Number of workers: the global batch divided by the batch of one worker.
    warmup_steps : int
        Steps from ``learning_rate`` to ``learning_rate * factor``.

    Returns
    -------
    float or keras.optimizers.schedules.LearningRateSchedule
        One of Keras's own classes, so that a model saved with it loads without tfmuster. A float if
        ``factor`` is 1.

    Raises
    ------
    ModelError
        The learning rate is not a positive number (reason ``learning-rate``).
    """
    if type(learning_rate) not in (int, float) or learning_rate <= 0:
        raise ModelError(
            "Only a learning rate that is a positive number can be scaled.",
            found=str(Value(learning_rate)),
            fix="pass a number as learning_rate, or omit scale_lr",
            reason="learning-rate",
        )
    if factor == 1:
        return float(learning_rate)
    import keras

    # With alpha 1 nothing decays after the warm-up.
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=float(learning_rate),
        decay_steps=1,
        alpha=1.0,
        warmup_target=float(learning_rate) * factor,
        warmup_steps=max(1, warmup_steps),
    )
