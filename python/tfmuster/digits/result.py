"""The return value of ``train_mnist``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes
    ----------
    history : dict of str to list of float
        One value per epoch for ``loss``, ``accuracy``, and, with validation data, ``val_loss`` and
        ``val_accuracy``. The values cover all workers and are the same on each of them.
    test_accuracy, test_loss : float
        Accuracy (a share from 0 to 1) and loss on the test digits.
    model : keras.Model
        The trained model, in this session.
    model_path : str or None
        Path of the model that the chief saved.
    dataset : str
        Description of the data set.
    batch_size, global_batch_size, replicas : int
        Images per replica and step, images per step on all replicas together, number of replicas.
    seconds : float
        Wall time of the training in seconds, without loading data and without the test.
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
        """Return all fields except the model, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "model"}
