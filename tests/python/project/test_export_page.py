"""The recipes of the how-to "Export and serve", as they stand, with a model that two workers have trained."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.launching import environment, tfmuster
from support.paths import ROOT
from tfmuster.net.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
ENVIRONMENT = environment(TF_CPP_MIN_LOG_LEVEL="3", RETICULATE_PYTHON=sys.executable)
PAGE = (ROOT / "docs/how-to/export.md").read_text(encoding="utf-8")
TRAIN = """
import tfmuster
strategy = tfmuster.strategy("multi_worker_mirrored")
import keras
import numpy as np
x = np.random.default_rng(1).random((64, 3), np.float32)
with strategy.scope():
    hidden = keras.layers.Dense(4, activation="relu")
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.fit(x, x.sum(1), batch_size=16, epochs=2, verbose=0)
tfmuster.save_model(model, "model.keras")
tfmuster.save_model(model, "digits/1")
np.save("expected.npy", model.predict(np.float32([[80, 3, 20], [1, 2, 3]]), verbose=0))
"""
ROWS = [{"area": 80, "rooms": 3, "age": 20}, {"area": 1, "rooms": 2, "age": 3}]


def block(heading: str, language: str) -> str:
    """The first block of a language after a heading of the page."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE.partition(f"\n## {heading}\n")[2], re.M | re.S)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    (folder / "train.py").write_text(TRAIN)
    done = tfmuster("launch", "-n", 2, "train.py", cwd=folder, limit=150)
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def serving(command: list[str], folder: Path) -> Iterator[None]:
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def ask(address: str, rows: Any) -> Any:
    """Post rows until the server is there."""
    request = urllib.request.Request(address, json.dumps(rows).encode(), {"Content-Type": "application/json"})
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_the_signature_of_the_folder_is_called_by_tensorflow_alone(trained: Path) -> None:
    program = block("TensorFlow Serving", "python") + (
        "import sys, numpy\n"
        "(name,) = served.structured_input_signature[1]\n"
        "(found,) = served(**{name: tf.constant([[80.0, 3, 20], [1, 2, 3]])}).values()\n"
        "numpy.testing.assert_allclose(found, numpy.load('expected.npy'), rtol=1e-5)\n"
        "print('tfmuster' in sys.modules)\n"
    )
    assert run(trained, program).splitlines()[-1] == "False"


def test_tflite(trained: Path) -> None:
    program = block("TFLite", "python") + (
        "import numpy\n"
        "lite = tf.lite.Interpreter('digits.tflite')\n"
        "lite.allocate_tensors()\n"
        "lite.set_tensor(lite.get_input_details()[0]['index'], numpy.float32([[80, 3, 20]]))\n"
        "lite.invoke()\n"
        "found = lite.get_tensor(lite.get_output_details()[0]['index'])\n"
        "numpy.testing.assert_allclose(found, numpy.load('expected.npy')[:1], rtol=1e-5)\n"
    )
    run(trained, program)


def expected(folder: Path) -> list[Any]:
    import numpy as np

    return [pytest.approx(row, rel=1e-3) for row in np.load(folder / "expected.npy").tolist()]


def test_plumber(trained: Path) -> None:
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    has = ["Rscript", "-e", "quit(status = !requireNamespace('plumber', quietly = TRUE))"]
    if subprocess.run(has, capture_output=True, env=ENVIRONMENT).returncode:
        pytest.skip("plumber is not installed")
    (trained / "plumber.R").write_text(block("plumber", "r"))
    (port,) = free_ports(1)
    command = ["Rscript", "-e", f"plumber::pr_run(plumber::pr('plumber.R'), port = {port}, docs = FALSE)"]
    with serving(command, trained):
        found = ask(f"http://127.0.0.1:{port}/predict", [list(row.values()) for row in ROWS])
    assert found["prediction"] == expected(trained)


def test_vetiver(trained: Path) -> None:
    pytest.importorskip("vetiver")
    (trained / "serve.py").write_text(block("vetiver", "python"))
    (port,) = free_ports(1)
    with serving([sys.executable, "-m", "uvicorn", "serve:app", "--port", str(port)], trained):
        found = ask(f"http://127.0.0.1:{port}/predict", ROWS)
    assert found["predict"] == expected(trained)
