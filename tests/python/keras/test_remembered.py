"""What a run remembers of its launch, its program and its machines."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from support.launching import only_run, tfmuster, write
from tfmuster.system.limits import usable_cores
from tfmuster.tracking.live.machines import read_machines
from tfmuster.tracking.run import Run

TRAIN = (
    "import sys, keras, numpy as np, tensorflow as tf",
    "keras.utils.set_random_seed(7)",
    "x = np.random.rand(96, 4).astype('float32')",
    "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])",
    "model.compile('sgd', 'mse')",
    "model.fit(x, x.sum(1), epochs=int(sys.argv[2]), batch_size=32, verbose=0)",
    "data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(48).prefetch(1)",
    "model.fit(data, verbose=0)",
)


@pytest.mark.slow
def test_a_training_of_two_workers(tmp_path: Path) -> None:
    write(tmp_path, "text.py", *TRAIN)
    done = tfmuster("launch", "-n", 2, "--distribute", "text.py", "--epochs", 3, cwd=tmp_path, limit=200)
    assert done.returncode == 0, done.stdout + done.stderr
    run = Run(only_run(tmp_path))
    notes = {note["about"]: note for note in run.notes()}
    assert notes["seed"]["value"] == 7
    assert [note["value"] for note in run.notes() if note["about"] == "batch size"] == [32, 48]
    assert notes["model summary"]["parameters"] == 49
    assert [line.split()[0] for line in notes["model summary"]["value"].splitlines()] == ["dense", "dense_1"]
    machine = {"host": socket.gethostname(), "cores": usable_cores(), "gpus": []}
    machines = read_machines(run.path)
    assert set(machines) == {"worker 0", "worker 1"}
    for known in machines.values():
        assert {name: known[name] for name in machine} == machine and known["memory"] > 1 << 28
    shown = tfmuster("runs", "show", cwd=tmp_path).stdout.splitlines()
    assert "run again:     tfmuster launch -n 2 --distribute text.py --epochs 3" in shown
    assert "seed:          7, set by the program" in shown
    assert "batch size:    32; 48" in shown
    assert any(line.startswith("hardware:      worker 0, worker 1 on ") for line in shown)


def test_a_loop_of_the_programs_own(tmp_path: Path) -> None:
    loop = ("import tensorflow as tf", "tf.random.set_seed(9)", "tf.random.normal([2])")
    write(tmp_path, "loop.py", *loop)
    done = tfmuster("launch", "-n", 1, "loop.py", cwd=tmp_path, limit=200)
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(tfmuster("runs", "show", "--json", cwd=tmp_path).stdout)
    assert [note["text"] for note in data["notes"]] == ["9, set by the program"]
    assert data["run_again"] == "tfmuster launch -n 1 loop.py"


def test_a_value_that_does_not_look_like_a_secret_is_not_shown_to_others(tmp_path: Path) -> None:
    """Other users of a shared folder see no values of variables, nor in the report."""
    write(tmp_path, "ok.py", "pass")
    old = os.umask(0o022)
    try:
        variables = ("--env", "SIGN=swordfish", "--env", "MY_TOKEN=herring")
        done = tfmuster("launch", "-n", 1, *variables, "python", "ok.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert tfmuster("runs", "report", cwd=tmp_path).returncode == 0
    finally:
        os.umask(old)
    run = only_run(tmp_path)
    assert run.name.endswith("-ok")
    texts = {
        path: path.read_text(errors="replace")
        for path in run.rglob("*")
        if path.is_file() and not {"resume.json", "tfruns.d"} & set(path.relative_to(run).parts)
    }
    assert [path.name for path, text in texts.items() if "swordfish" in text] == ["run.json"]
    assert (run / "run.json").stat().st_mode & 0o077 == 0
    assert not any("herring" in text for text in texts.values())
    shown = tfmuster("runs", "show", cwd=tmp_path).stdout
    assert "--env SIGN=swordfish --env 'MY_TOKEN=***' python ok.py" in shown
