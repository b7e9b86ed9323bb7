"""What the checkpoint callback refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.errors import CheckpointError
from tfmuster.training.checkpoints import checkpoint_callback


@pytest.mark.parametrize("every", [0, -1, True, 1.5, "step"])
def test_every(tmp_path: Path, every: object) -> None:
    with pytest.raises(CheckpointError, match="every must be") as caught:
        checkpoint_callback(tmp_path, every=every)  # type: ignore[arg-type]
    assert caught.value.fields["reason"] == "every"


def test_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFMUSTER_RUN_DIR", raising=False)
    with pytest.raises(CheckpointError, match="Outside of a job, checkpoints need a folder"):
        checkpoint_callback()
