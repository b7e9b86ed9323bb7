"""The learning rate where several workers make the batch larger."""

from __future__ import annotations

from typing import Any

from ..errors import ModelError


def scaled_learning_rate(learning_rate: float, factor: int, warmup_steps: int) -> Any:
    """``learning_rate`` times ``factor``, reached step by step: the linear rule with gradual warm-up.

    When the global batch is ``factor`` times as large, an epoch has as many times fewer steps; the rule keeps
    the way that the weights go in an epoch. Without a warm-up the first steps would go too far.
    Source: Goyal et al. (2017), Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour, arXiv:1706.02677,
    sections 2.1 and 2.2. The paper warms up for 5 of 90 epochs, and finds the rule to hold for SGD, up to
    batches of about 8,000; with other optimizers, measure.

    Parameters
    ----------
    learning_rate : float
        Of one worker.
    factor : int
        Workers; the batch of all over that of one.
    warmup_steps : int
        Steps from ``learning_rate`` to ``factor`` times that.

    Returns
    -------
    float or keras.optimizers.schedules.LearningRateSchedule
        A class of Keras's own, so that a model that is saved with it loads without tfmuster. A float where
        there is nothing to scale.

    Raises
    ------
    ModelError
        The learning rate is no positive number (reason ``learning-rate``).
    """
    if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)) or learning_rate <= 0:
        raise ModelError(
            "Only a learning rate that is a positive number can be scaled.",
            found=repr(learning_rate),
            fix="pass learning_rate=, or leave scale_lr out",
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
