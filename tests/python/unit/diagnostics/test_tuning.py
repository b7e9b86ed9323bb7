"""What is made of the figures of trials."""

from __future__ import annotations

import pytest

from tfmuster.diagnostics.tuning import Setting, Trial, advice, recommend


def trial(seconds: float, alone: float = 0.01, **setting: object) -> Trial:
    return Trial(Setting(**setting), seconds, alone, workers=2)


def test_the_simpler_setting_and_the_smaller_batch_are_recommended_unless_the_other_is_clearly_faster() -> (
    None
):
    plain = trial(0.020, batch=64)
    assert recommend([plain, trial(0.0195, batch=64, gradient_dtype="bfloat16")]) is plain
    faster = trial(0.015, batch=64, gradient_dtype="bfloat16")
    assert recommend([plain, faster]) is faster
    assert recommend([plain, trial(0.038, batch=128)]) is plain
    larger = trial(0.025, batch=128)
    assert recommend([plain, larger]) is larger


def test_it_is_said_where_more_workers_do_not_pay() -> None:
    slow = trial(0.020, alone=0.010, batch=64)
    assert slow.efficiency == 0.5
    assert slow.communication == 0.5
    assert slow.speed == pytest.approx(6400)
    assert "more workers do not pay" in advice([slow])
    fast = trial(0.011, alone=0.010, batch=64)
    assert "2 workers then do 1.82 times the work" in advice([fast])
    larger = trial(0.011, alone=0.010, batch=256)
    assert "raise the learning rate by the same factor" in advice([fast, larger])
