"""Programs that never heard of tfmuster: what importing TensorFlow and Keras does in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.launching import environment, tfmuster, write
from tfmuster.system.interpreter import with_tfmuster_on_path

pytestmark = pytest.mark.fresh
HOOK = "from tfmuster.worker.import_hook import install_import_hook; install_import_hook()"
#: Which of the two repairs are in place, without importing anything.
STATE = """
import sys
keras = sys.modules.get("keras.src.backend.tensorflow.trainer")
made = sys.modules.get("tensorflow.python.distribute.collective_all_reduce_strategy")
print(
    "keras", bool(keras and hasattr(keras.TensorFlowTrainer._maybe_symbolic_build, "__wrapped__")),
    "strategy", bool(made and hasattr(made.CollectiveAllReduceStrategy.__init__, "__wrapped__")),
)
"""


def last_line(*program: str) -> str:
    """What a program in a Python of its own prints last."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program)],
        env=with_tfmuster_on_path(environment(TF_CPP_MIN_LOG_LEVEL="3")),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_to_be_looked_for_is_not_to_be_imported() -> None:
    find = "import importlib.util; assert importlib.util.find_spec('tensorflow').loader"
    loaded = "print([name for name in ('tensorflow', 'keras', 'numpy') if name in sys.modules])"
    assert last_line(HOOK, find, find.replace("tensorflow", "keras"), "import sys", loaded) == "[]"


def test_what_is_not_installed_is_not_found(tmp_path: Path) -> None:
    code = "import importlib.util; print(importlib.util.find_spec('keras'))"
    assert last_line("import sys", HOOK, "sys.path.clear()", code) == "None"


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        (HOOK, "import tensorflow", "import keras"),
        (HOOK, "import keras", "import tensorflow"),
        (
            HOOK,
            "import importlib.util as i",
            "i.find_spec('tensorflow')",
            "i.find_spec('keras')",
            "import keras",
        ),
        (HOOK, HOOK, "import keras"),
        ("import keras", HOOK),
    ],
    ids=["tensorflow-first", "keras-first", "looked-for-first", "twice", "imported-before"],
)
def test_the_order_of_imports_does_not_matter(program: tuple[str, ...]) -> None:
    assert last_line(*program, STATE) == "keras True strategy True"


@pytest.mark.slow
def test_keras_is_left_alone_where_it_is_not_to_be_repaired() -> None:
    without = HOOK.replace("install_import_hook()", "install_import_hook(keras=False)")
    assert last_line(without, "import tensorflow, keras", STATE) == "keras False strategy True"


@pytest.mark.slow
def test_a_plain_program_that_imports_keras_first_trains_on_two_workers(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import keras",
        "import numpy as np",
        "import tensorflow as tf",
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()",
        "with strategy.scope():",
        "    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])",
        "    model.compile('sgd', 'mse')",
        "x = np.random.default_rng(1).normal(size=(64, 4))",
        "model.fit(x, x.sum(axis=1), batch_size=16, epochs=2, verbose=0)",
        "print('weights', model.get_weights()[0].ravel().tolist())",
    )
    done = tfmuster("launch", "--all-output", "-n", 2, "train.py", cwd=tmp_path, limit=200)
    assert done.returncode == 0, done.stdout + done.stderr
    weights = [line.partition(" | ")[2] for line in done.stdout.splitlines() if "weights" in line]
    assert len(weights) == 2
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_a_keras_that_is_too_new_is_repaired_with_a_warning() -> None:
    catch = "import warnings; caught = warnings.catch_warnings(record=True); seen = caught.__enter__()"
    newer = "import keras; keras.__version__ = '3.99.0'"
    tell = "print([str(w.message) for w in seen if w.category.__name__ == 'TfmusterWarning'])"
    said = last_line(newer, catch, HOOK, "caught.__exit__()", tell)
    assert "it was tested with Keras 3.10 to 3.15, this is 3.99.0" in said
    assert last_line(newer, HOOK, STATE).startswith("keras True")


def test_the_garbage_collector_leaves_tensorflows_own_objects_alone() -> None:
    code = (
        "import gc; from tfmuster.worker.import_hook import install_import_hook; install_import_hook()\n"
        "import tensorflow, keras\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 200_000, len(gc.get_objects()) < 100_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["True", "True", "True"]
