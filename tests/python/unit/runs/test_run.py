"""The metrics of a run that was restarted."""

from __future__ import annotations

import json
from pathlib import Path

from support.launching import write
from tfmuster.runs.run import Run


def test_of_an_epoch_that_was_repeated_the_last_counts(tmp_path: Path) -> None:
    lines = [
        {"epoch": epoch, "time": 0, "loss": loss} for epoch, loss in [(1, 3.0), (2, 2.5), (2, 2.0), (3, 1.0)]
    ]
    write(tmp_path, "metrics.jsonl", *map(json.dumps, lines))
    assert Run(tmp_path).history() == {"loss": [3.0, 2.0, 1.0]}
