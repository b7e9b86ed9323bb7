"""What the workers of a job have in common: `broadcast` and `gather`, before TensorFlow and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import tfmuster, write

pytestmark = pytest.mark.slow

SHARED = """
import json, os, sys, time
import numpy as np
import tfmuster

index = json.loads(os.environ["TF_CONFIG"])["task"]["index"] if "TF_CONFIG" in os.environ else 0
rng = np.random.default_rng(index)
big = rng.normal(size=(300, 700))
first = tfmuster.broadcast({"rate": 0.1 * (index + 1), "layers": [index, (2, None)], "big": big})
assert np.array_equal(first["big"], np.random.default_rng(0).normal(size=(300, 700)))
assert (first["rate"], first["layers"]) == (0.1, [0, (2, None)])
values = tfmuster.gather({"index": index, "rows": np.arange(index * 3), "big": big[:index]})
assert [value["index"] for value in values] == list(range(len(values)))
assert [value["rows"].tolist() for value in values] == [list(range(i * 3)) for i in range(len(values))]
assert tfmuster.gather(None) == [None] * len(values)
assert "tensorflow" not in sys.modules
print("shared", len(values), flush=True)
"""


@pytest.mark.fresh
@pytest.mark.parametrize("workers", [1, 3])
def test_values_of_all_workers(tmp_path: Path, workers: int) -> None:
    write(tmp_path, "train.py", SHARED)
    done = tfmuster("launch", "--all-output", "-n", workers, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"shared {workers}") == workers


def test_a_model_trains_with_the_chiefs_hyper_parameters(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import os, secrets",
        "import tfmuster",
        "rate = tfmuster.broadcast(secrets.randbelow(1000) / 1e4 + 0.01)",
        "import keras",
        "import numpy as np",
        "model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])",
        "model.compile(keras.optimizers.SGD(rate), 'mse')",
        "history = model.fit(np.ones((64, 3)), np.ones(64), batch_size=16, epochs=2, verbose=0)",
        "print('done', rate, history.history['loss'], flush=True)",
    )
    done = tfmuster("launch", "--all-output", "-n", 2, "--distribute", "train.py", cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stderr
    said = [line.partition("| ")[2] for line in done.stdout.splitlines() if "| done" in line]
    assert len(said) == 2 and len(set(said)) == 1


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("tfmuster.gather(1) if chief else tfmuster.broadcast(2)",), "All workers must make the same call."),
        (("chief and tfmuster.gather(1)",), "All workers must call gather, but worker 1 has finished"),
        (("tfmuster.broadcast(open)",), "broadcast takes values that run nothing when they are read."),
    ],
    ids=["other", "alone", "code"],
)
def test_what_is_refused(tmp_path: Path, lines: tuple[str, ...], text: str) -> None:
    write(
        tmp_path,
        "train.py",
        "import os",
        "import tfmuster",
        "chief = os.environ['TFMUSTER_IS_CHIEF'] == '1'",
        "tfmuster.gather(0)",
        *lines,
    )
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert text in done.stderr, done.stderr


def test_independent_workers_share_nothing(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import tfmuster; tfmuster.gather(1)")
    done = tfmuster("launch", "-n", 2, "--independent", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "Independent workers do not wait for each other, and gather would." in done.stderr


def test_one_worker_of_a_machine_comes_first(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import os, pathlib, shutil, time",
        "import tfmuster",
        "raw = pathlib.Path('raw')",
        "with tfmuster.chief_first():",
        "    if not raw.exists():",
        "        time.sleep(0.5)",
        "        raw.mkdir()",
        "        print('made', flush=True)",
        "    print('there', raw.is_dir(), flush=True)",
        "with tfmuster.chief_first():",
        "    if not os.path.exists('copy'):",
        "        shutil.copytree(raw, 'copy')",
    )
    done = tfmuster("launch", "--all-output", "-n", 3, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| made") == 1 and "worker 0 | made" in done.stdout
    assert done.stdout.count("there True") == 3


def test_an_error_of_the_first_worker_is_the_jobs(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import tfmuster",
        "with tfmuster.chief_first():",
        "    if tfmuster.current_task().index == 0:",
        "        raise OSError('no such data')",
    )
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "worker 0 on" in done.stderr and "OSError: no such data" in done.stderr
