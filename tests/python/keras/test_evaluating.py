"""An evaluator tests the checkpoints of a job, and ends with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.launching import read_json, tfmuster, write

PROGRAM = (
    "import time, tfmuster",
    "digits = tfmuster.synthetic(1, 640, 64)",
    "if tfmuster.current_task().type == 'evaluator':",
    "    model = tfmuster.mnist_model('softmax')",
    "    found = tfmuster.evaluate_checkpoints(model, (digits.x_test, digits.y_test))",
    "    print('found', [row['step'] for row in found][-1])",
    "else:",
    "    tfmuster.train_mnist('softmax', dataset=digits, epochs=2, steps_per_epoch=5, verbose=False,",
    "                         checkpoint_every='epoch')",
)


@pytest.mark.slow
@pytest.mark.timeout(250)
@pytest.mark.parametrize("damaged", [False, True])
def test_an_evaluator_tests_the_last_checkpoint_and_ends(tmp_path: Path, damaged: bool) -> None:
    script = write(tmp_path, "train.py", *PROGRAM)
    run = tmp_path / "runs" / "run"
    if damaged:
        # Of a higher step than this training reaches.
        (run / "checkpoints").mkdir(parents=True)
        (run / "checkpoints" / f"{1000:012d}.checkpoint").write_bytes(b"damaged")
    done = tfmuster("launch", "-n", 2, "--evaluator", "--run-dir", run, script, cwd=tmp_path, limit=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "evaluator 0 | checkpoint after step 10: test accuracy" in done.stdout
    assert "evaluator 0 | found 10.0" in done.stdout
    assert read_json(run / "status.json")["tasks"]["evaluator 0"]["state"] == "done"
    rows = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == 10 and {"time", "loss", "accuracy"} <= set(rows[-1])
