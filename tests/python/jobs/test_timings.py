"""What ``tfmuster launch --timings`` says of a real job."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import only_run, tfmuster, write
from tfmuster.cli.launch import seconds_to_first_step
from tfmuster.tracking.live.states import read_events, read_shares
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.fresh

SPANS = (
    *("launcher", "interpreter", "import of TensorFlow", "program, to the rendezvous", "rendezvous"),
    *("strategy", "model and data", "first step"),
)
#: What the display shows one after the other, and the timeline of a report.
PHASES = [
    *("started", "importing", "preparing", "waiting", "joined", "building", "tracing", "first step"),
    *("training", "trained", "done"),
]


def test_the_time_to_the_first_step_is_shown_part_by_part_and_who_waits_for_whom(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import time; time.sleep(0.7)",
        "import tensorflow as tf",
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()",
        "import keras, numpy",
        "with strategy.scope():",
        "    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])",
        "    model.compile('sgd', 'mse')",
        "class Slow(keras.callbacks.Callback):",
        "    def on_train_batch_end(self, batch, logs=None):",
        "        time.sleep(0.05 * strategy.cluster_resolver.task_id)",
        "x = numpy.zeros((80, 4))",
        "model.fit(x, x[:, :1], batch_size=4, verbose=0, callbacks=[Slow()])",
    )
    done = tfmuster("launch", "-n", 2, "--timings", "train.py", cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stderr
    found = seconds_to_first_step(Run(only_run(tmp_path)))
    assert list(found) == ["worker 0", "worker 1"]
    for spans in found.values():
        assert tuple(spans) == SPANS
        # The launcher of this function is the test; all other times were noted by the job.
        assert all(0 <= seconds < 60 for name, seconds in spans.items() if name != "launcher")
        assert spans["interpreter"] >= 0.7
        assert spans["import of TensorFlow"] > 0.5
    lines = [line for line in done.stderr.splitlines() if line.startswith((*SPANS, "total"))]
    assert len(lines) == len(SPANS) + 1
    columns = [[float(cell) for cell in line[30:].split()] for line in lines]
    for worker in (0, 1):
        *parts, total = (column[worker] for column in columns)
        assert abs(sum(parts) - total) < 0.1
        assert 0 < parts[0] < 30
    for events in read_events(only_run(tmp_path)).values():
        assert [event["phase"] for event in events] == PHASES
    shares = read_shares(only_run(tmp_path))
    assert shares["worker 0"]["waits_for"] == "worker 1"
    assert 0.5 < shares["worker 0"]["wait_share"] <= shares["worker 0"]["sum_share"] <= 1
    assert 0 <= shares["worker 1"]["wait_share"] < 0.4
    table = done.stderr.partition("share of the last epoch")[2].splitlines()
    assert table[1].split()[-2:] == ["worker", "1"] and table[2].startswith("worker 1")


def test_what_never_began_is_left_out(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 1, "--timings", "--", "true", cwd=tmp_path)
    assert done.returncode == 0
    assert list(seconds_to_first_step(Run(only_run(tmp_path)))["worker 0"]) == ["launcher"]
