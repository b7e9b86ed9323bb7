"""Several strategies of one program share a server, whichever worker makes its strategies later."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import tfmuster, write

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("own", ["tf.distribute.MirroredStrategy()", ""], ids=["mirrored first", "alone"])
def test_strategies_of_a_worker_that_is_late(tmp_path: Path, own: str, late: int) -> None:
    """Variables, sums and gathers of both strategies are right, in any order, whatever their shapes."""
    write(
        tmp_path,
        "several.py",
        "import json, os, time",
        "import tensorflow as tf",
        "index = json.loads(os.environ['TF_CONFIG'])['task']['index']",
        own,
        "strategies = []",
        "for size in (3, 5):",
        f"    time.sleep(2 if index == {late} else 0)",
        "    strategy = tf.distribute.MultiWorkerMirroredStrategy()",
        "    with strategy.scope():",
        "        weights = tf.Variable(tf.fill([size], float(index + 7)))",
        "    strategies.append((strategy, weights))",
        "",
        "@tf.function",
        "def total(strategy, weights):",
        "    return strategy.reduce('SUM', strategy.run(lambda: weights + float(index)), axis=None)",
        "",
        "said = []",
        "for strategy, weights in strategies + strategies[::-1]:",
        "    said.append(total(strategy, weights).numpy().tolist())",
        "    one = strategy.run(lambda: tf.constant(float(index + 1)))",
        "    said.append(float(strategy.reduce('SUM', one, axis=None)))",
        "    said.append(strategy.gather(tf.fill([index + 1, 2], index), 0).numpy().tolist())",
        "print(f'said {json.dumps(said)}\\n', end='', flush=True)",
    )
    # A proxy that does not answer is no way to the workers of this machine.
    env = {"TFMUSTER_STALL_TIMEOUT": "20", "http_proxy": "http://127.0.0.1:9", "no_proxy": "example.org"}
    done = tfmuster("launch", "--all-output", "-n", 2, "several.py", cwd=tmp_path, limit=120, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = "[[0, 0], [1, 1], [1, 1]]"
    of_3, of_5 = (f"[{', '.join(['15.0'] * size)}], 3.0, {rows}" for size in (3, 5))
    for worker in (0, 1):
        assert f"worker {worker} | said [{of_3}, {of_5}, {of_5}, {of_3}]\n" in done.stdout
    assert "Enabling collective ops after program startup" not in done.stdout
