"""What ``train_mnist`` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainingResult:
    """What a training gives back.

    Attributes
    ----------
    history : dict of str to list of float
        One value per epoch for ``loss``, ``accuracy`` and, with validation data, ``val_loss`` and
        ``val_accuracy``: over all workers, the same on each of them.
    test_accuracy, test_loss : float
        On the test digits. ``test_accuracy`` is a share between 0 and 1.
    model : keras.Model
        The trained model, in this session.
    model_path : str or None
        Where the chief saved it.
    dataset : str
        What it was trained on, in words.
    batch_size, global_batch_size, replicas : int
        Images per replica and step, images per step on all replicas together, number of replicas.
    seconds : float
        Wall time of the training itself, without loading data and without the test.
    """

    history: dict[str, list[float]]
    test_accuracy: float
    test_loss: float
    model: Any = field(repr=False)
    model_path: str | None
    dataset: str
    batch_size: int
    global_batch_size: int
    replicas: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """All but the model, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "model"}
