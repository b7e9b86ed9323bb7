"""Learning rates that can't be scaled, or need not be."""

from __future__ import annotations

import pytest

from tfmuster.errors import ModelError
from tfmuster.training.learning_rates import scaled_learning_rate


def test_one_worker_has_nothing_to_scale() -> None:
    assert scaled_learning_rate(0.01, 1, warmup_steps=10) == 0.01


@pytest.mark.parametrize("rate", [None, 0, -1, True, "0.1"])
def test_what_is_no_number_is_refused(rate: object) -> None:
    with pytest.raises(ModelError, match="positive number") as error:
        scaled_learning_rate(rate, 2, warmup_steps=1)
    assert error.value.fields["reason"] == "learning-rate"
