"""Data types of gradients."""

from __future__ import annotations

import pytest


def test_an_unknown_type_is_refused() -> None:
    from tfmuster.errors import StrategyError
    from tfmuster.keras_compat.choices import GRADIENT_DTYPE

    with pytest.raises(StrategyError, match="float32, bfloat16, float16") as error:
        GRADIENT_DTYPE.checked("int8")
    assert error.value.fields["reason"] == "gradient-dtype"
