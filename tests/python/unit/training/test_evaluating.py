"""Only an evaluator follows checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.errors import StrategyError
from tfmuster.training.evaluating import evaluate_checkpoints


def test_only_an_evaluator_follows_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(StrategyError) as caught:
        evaluate_checkpoints(None, None, folder=tmp_path)
    assert caught.value.fields["reason"] == "task-type"
