"""What ``tfmuster launch --timings`` says of a real job."""

from __future__ import annotations

from pathlib import Path

from support.launching import only_run, tfmuster, write
from tfmuster.launch.supervise.timings import timings
from tfmuster.runs.run import Run

SPANS = (
    *("launcher", "interpreter", "import of TensorFlow", "program, to the rendezvous", "rendezvous"),
    *("strategy", "model and data", "first step"),
)


def test_the_time_to_the_first_step_is_shown_part_by_part(tmp_path: Path) -> None:
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
        "model.fit(numpy.zeros((8, 4)), numpy.zeros((8, 1)), batch_size=4, verbose=0)",
    )
    done = tfmuster("launch", "-n", 2, "--timings", "train.py", cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stderr
    found = timings(Run(only_run(tmp_path)))
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


def test_what_never_began_is_left_out(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 1, "--timings", "--", "true", cwd=tmp_path)
    assert done.returncode == 0
    assert list(timings(Run(only_run(tmp_path)))["worker 0"]) == ["launcher"]
