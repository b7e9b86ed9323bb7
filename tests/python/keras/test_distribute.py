"""``launch --distribute``: programs without a strategy, trained by all workers as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.launching import environment, names, only_run, read_json, tfmuster, write
from support.paths import PROGRAMS

KINDS = ("sequential", "functional", "subclassed", "loaded", "tf.data")
#: What is found when a program makes another strategy than the one that it has.
OTHER_STRATEGIES = {
    "mirrored": "tf.distribute.MirroredStrategy",
    "v1-mirrored": "tf.compat.v1.distribute.MirroredStrategy",
    "central": "tf.distribute.experimental.CentralStorageStrategy",
    "servers": "tf.distribute.experimental.ParameterServerStrategy",
    "v1-servers": "tf.compat.v1.distribute.experimental.ParameterServerStrategy",
    "v1-workers": "tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy",
    "one": "tf.distribute.OneDeviceStrategy",
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_program_as_it_stands_has_the_weights_of_one_process(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    # Both runs load the model that the first one saves.
    loads = (alone / "model.keras", "applications")
    program = PROGRAMS / "plain.py"
    subprocess.run([sys.executable, program, alone, *loads], env=environment(), check=True, timeout=280)
    done = tfmuster(
        "launch", "--all-output", "-n", 2, "--distribute", program, together, *loads, cwd=tmp_path, limit=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected, chief, other = (
        np.load(folder / f"found-{who}.npz")
        for folder, who in ((alone, "alone"), (together, "1"), (together, "0"))
    )
    assert set(expected.files) == set(chief.files) == set(other.files)
    for name in expected.files:
        np.testing.assert_array_equal(chief[name], other[name], err_msg=name)
        # Batch normalization uses the statistics of each worker's rows.
        if not name.startswith("applications") or "steps" in name:
            np.testing.assert_allclose(chief[name], expected[name], atol=1e-5, err_msg=name)
    assert {name.partition(" ")[0] for name in expected.files} >= {*KINDS, "applications"}
    assert names(together) == ["chief.txt", "found-0.npz", "found-1.npz", "model.keras"]
    assert (together / "chief.txt").read_text() == "written\n"
    for worker in (0, 1):
        assert f"worker {worker} | same strategy: True" in done.stdout
        assert f"worker {worker} | loop: not-distributed | " in done.stdout
    about = [line for line in done.stdout.splitlines() if "train one model (--distribute)" in line]
    assert len(about) == 1
    assert "batch_size is the batch of all 2 workers" in about[0]
    assert 'os.environ.get("TFMUSTER_IS_CHIEF") != "0"' in about[0]
    assert read_json(only_run(tmp_path) / "run.json")["distribute"] is True


FIRST = """
import sys
if sys.argv[1] == "tf_keras":
    import tf_keras as keras
else:
    import keras
import numpy as np
import tensorflow as tf

if sys.argv[1] == "variable":
    made = tf.Variable([1.0, 2.0])
else:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    made = model.layers[1].kernel
    made = made if sys.argv[1] == "tf_keras" else made.value
print("of all workers:", isinstance(made, tf.distribute.DistributedValues))
if sys.argv[1] != "variable":
    model.compile("adam", "mse")
    print("loss:", model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0).history["loss"][0] >= 0)
"""


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("first", ["layer", "variable", "tf_keras"])
def test_the_first_thing_that_a_program_makes_belongs_to_all_workers(tmp_path: Path, first: str) -> None:
    program = write(tmp_path, "first.py", FIRST)
    done = tfmuster(
        "launch", "--all-output", "-n", 2, "--distribute", program, first, cwd=tmp_path, limit=140
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for worker in (0, 1):
        assert f"worker {worker} | of all workers: True" in done.stdout
    assert done.stdout.count("loss: True") == (0 if first == "variable" else 2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_batch_is_multiplied_and_other_strategies_are_refused(tmp_path: Path) -> None:
    program = PROGRAMS / "scaled.py"
    alone = subprocess.run(
        [sys.executable, program], env=environment(), capture_output=True, text=True, check=True, timeout=140
    )
    done = tfmuster("launch", "-n", 2, "--distribute", "--scale-batch", program, cwd=tmp_path, limit=140)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(only_run(tmp_path) / "logs" / f"worker-{index}.log").read_text() for index in (0, 1)]
    expected = [line for line in alone.stdout.splitlines() if " updates: " in line or " weights: " in line]
    assert len(expected) == 12
    assert "share of the files: 1.00" in alone.stdout.splitlines()
    assert expected[::2] == [
        "default updates: 2",
        "positional updates: 14",
        "tf.data updates: 7",
        "dropped updates: 6",
        "own updates: 7",
        "files updates: 7",
    ]
    for log in logs:
        (share,) = re.findall(r"^share of the files: (.*)$", log, re.MULTILINE)
        # Of a hundred files, up to five are also read to compare the first rows.
        assert 0.5 <= float(share) <= 0.56, log
        assert set(expected) <= set(log.splitlines()), (expected, log)
        assert "generator refused: scale-batch | generator" in log
        assert "unbatched refused: scale-batch | " in log
        for name, found in OTHER_STRATEGIES.items():
            assert f"{name} refused: distribute | {found}" in log, log
        assert "same: True" in log
    assert done.stdout.count("batch_size is multiplied by 2") == 1
    assert read_json(only_run(tmp_path) / "run.json")["scale_batch"] is True


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("loop", "told"),
    [
        (
            "with tf.GradientTape() as tape: loss = tf.reduce_sum(v * v)\n"
            "v.assign_sub(tape.gradient(loss, v))",
            "found: a loop computes or applies gradients outside of strategy.run()",
        ),
        (
            "v[0].assign(3.0)",
            "To do: With --distribute, variables of the program's own belong to the strategy",
        ),
    ],
)
def test_a_loop_on_variables_of_its_own_is_told_what_to_do(tmp_path: Path, loop: str, told: str) -> None:
    write(tmp_path, "t.py", "import tensorflow as tf", "v = tf.Variable([1.0, 2.0])", loop)
    done = tfmuster("launch", "-n", 2, "--distribute", "t.py", cwd=tmp_path, limit=200)
    assert done.returncode == 1
    assert told in done.stderr


def test_scale_batch_is_for_distribute(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, "--scale-batch", "plain.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "scale_batch changes the batch size of a program with distribute only." in done.stderr
    assert names(tmp_path) == []
