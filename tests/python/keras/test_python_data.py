"""Training on data that Python code makes, against one process."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from support.launching import nothing_left, tfmuster, write
from support.scenarios import arrays, same_as_one_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCENARIOS = [
    "items",
    "items_in_threads",
    "items_in_processes",
    "items_are_tested_and_predicted",
    "generators",
    "made_by_from_generator",
    pytest.param(
        "data_frames",
        marks=pytest.mark.skipif(not importlib.util.find_spec("pandas"), reason="needs pandas"),
    ),
    "images_of_a_folder",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """The folders of one process and of two workers, and the output of the workers."""
    import keras

    folder = tmp_path_factory.mktemp("python-data")
    rng = np.random.default_rng(1)
    for number in range(27):
        path = folder / "images" / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        keras.utils.save_img(path, rng.integers(0, 255, (8, 8, 3)))
    one, two = folder / "one", folder / "two"
    one.mkdir()
    two.mkdir()
    succeeded(run_job("python_data.py", 0, one, limit=280))
    return one, two, [process.stdout for process in succeeded(run_job("python_data.py", 2, two, limit=280))]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_weights_and_metrics_are_those_of_one_process(
    results: tuple[Path, Path, list[str]], scenario: str
) -> None:
    one, two, _ = results
    same_as_one_process(one, two, scenario)


def test_the_chiefs_order_holds_if_a_worker_draws_another(results: tuple[Path, Path, list[str]]) -> None:
    one, two, _ = results
    for name, value in arrays(one, "items_in_other_orders").items():
        for worker in (0, 1):
            other = arrays(two, "items_in_other_orders", worker)[name]
            np.testing.assert_allclose(other, value, rtol=0, atol=1e-5, err_msg=name)


def test_a_label_outside_the_classes_is_named(results: tuple[Path, Path, list[str]]) -> None:
    for output in results[2]:
        assert "data labels: label 3 in row 41\n" in output  # arrays: before the first step
        assert "data labels: label 3\n" in output  # data sets: TensorFlow finds it in the step


def test_an_exception_of_items_on_one_worker_is_named_in_time(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "train.py",
        "import time",
        "import numpy as np",
        "import tensorflow as tf",
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()",
        "import keras",
        "worker = strategy.cluster_resolver.task_id",
        "class Items(keras.utils.PyDataset):",
        "    def __len__(self):",
        "        return 1000",
        "    def __getitem__(self, index):",
        "        if index >= 60 and worker == 1:",
        "            print('raised at', time.time(), flush=True)",
        "            raise OSError(f'item {index} can not be read')",
        "        return np.ones((8, 2)), np.ones(8)",
        "with strategy.scope():",
        "    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])",
        "    model.compile('sgd', 'mse')",
        "model.fit(Items(workers=2), shuffle=False, verbose=0)",
    )
    done = tfmuster("launch", "-n", 2, program, cwd=tmp_path, limit=150)
    ended = time.time()
    assert done.returncode == 1
    assert "worker 1" in done.stderr
    assert "The program's code for reading data must return a batch." in done.stderr
    assert "it raised OSError: item 6" in done.stderr, done.stderr
    # Keras removes the frames of the program from the traceback.
    assert "/train.py, line 13, in __getitem__)" in done.stderr, done.stderr
    raised = [float(line.split()[-1]) for line in done.stdout.splitlines() if "raised at" in line]
    assert ended - raised[0] < 10
    nothing_left(tmp_path)
