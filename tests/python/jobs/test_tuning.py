"""``tfmuster speed``: real trials of a script, and what is made of their figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.launching import nothing_left, tfmuster, write

SCRIPT = """
import sys
import keras, numpy, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse")
rows = 4000
model.fit(numpy.zeros((rows, 8)), numpy.zeros((rows, 4)), batch_size=BATCH, epochs=50, verbose=0)
open("not to be reached", "w").close()
"""


@pytest.mark.slow
def test_a_script_is_tried_with_every_setting(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SCRIPT.replace("BATCH", "int(sys.argv[1])"))
    arguments = ["speed", "-n", 2, "--batch", "10,40", "--steps", 20, "train.py", "{batch}"]
    done = tfmuster(*arguments, cwd=tmp_path, limit=250)
    assert done.returncode == 0, done.stderr
    table, _, said = done.stdout.partition("\n\n")
    lines = table.splitlines()[1:]
    rows = [line.split() for line in lines]
    tried = [(int(row[0]), row[1], row[2]) for row in rows]
    assert tried[:4] == [(b, d, "automatic") for b in (10, 40) for d in ("float32", "bfloat16")]
    assert tried[4][2] == "1"
    assert rows[5][3] == "1"
    assert all(float(row[4].replace(",", "")) > 0 and float(row[5]) > 0 for row in rows)
    # Somebody has waited, if only for the first bytes.
    assert all(re.search(r"  \d{1,3}% for worker [01]$", line) for line in lines)
    assert said.startswith("Use ")
    assert not (tmp_path / "not to be reached").exists()
    assert not (tmp_path / "runs").exists()
    nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch", "10", "train.py"], "no {batch} among its arguments"),
        (["train.py", "{batch}"], "There is no batch size to try."),
        (["--batch", "10,x", "train.py", "{batch}"], "whole numbers of at least 1"),
        (["missing.py"], "missing.py"),
        # The options of tfmuster behind what is to be tried.
        (["mnist", "-n", 2, "--batch", "10,x"], "whole numbers of at least 1"),
        (["mnist", "-n", 1], "--workers (-n, -np) takes a whole number of at least 2"),
        (["train.py", "-n", 1], "--workers (-n, -np) takes a whole number of at least 2"),
        (["train.py", "--workers=1", "--steps", 3], "--workers (-n, -np) takes a whole number of at least 2"),
        (["train.py", "-n", 2, "--batch", "10,x"], "with gradients as float32"),
    ],
)
def test_what_can_not_be_tried_is_said_at_once(tmp_path: Path, arguments: list[str], said: str) -> None:
    write(tmp_path, "train.py", "raise SystemExit(3)")
    done = tfmuster("speed", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise ValueError('no such layer')", "no such layer"),
        ("raise SystemExit('no such file')", "with gradients as float32\n         no such file"),
        ("print('ready')", "before a trial could be measured"),
    ],
)
def test_a_trial_that_fails_or_never_trains_is_named(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path, "train.py", line)
    done = tfmuster("speed", "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
