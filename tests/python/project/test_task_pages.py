"""The blocks of tutorials and how-to guides, run as they stand, in the order of their page.

What a page leaves to its reader, such as the data and a model, is PYTHON or R.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import tfmuster
from support.launching import processes_in
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(300)]
LANGUAGES = pytest.mark.parametrize("language", ["python", "r"])
ENVIRONMENT = {
    **os.environ,
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "RETICULATE_PYTHON": sys.executable,
    # What the pages call tfmuster is this Python's.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}
ENVIRONMENT.pop("TF_CONFIG", None)
#: A model, and rows in data/*.csv.
PYTHON = """
import tfmuster
strategy = tfmuster.strategy("multi_worker_mirrored")
import keras
with strategy.scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
"""
R = """
library(tfmuster)
strategy <- strategy("multi_worker_mirrored")
keras <- reticulate::import("keras")
with(strategy$scope(), {
  model <- keras$Sequential(list(keras$Input(list(2L)), keras$layers$Dense(1L)))
  model$compile("sgd", "mse")
})
"""
#: What the pages call `x` and `y`.
ROWS = {
    "python": "import numpy as np\nx, y = np.ones((640, 2)), np.ones((640, 1))\n",
    "r": "x <- matrix(1, 640, 2)\ny <- matrix(1, 640, 1)\n",
}
MODEL = {"python": PYTHON, "r": R}
ENDING = {"python": "py", "r": "R"}


def block(page: str, heading: str, language: str) -> str:
    """The first block of a language below a heading of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    below = re.split(r"^## ", text.partition(heading)[2], maxsplit=1, flags=re.M)[0]
    found = re.search(rf"^( *)```{language}\n(.*?)^\1```", below, re.M | re.S)
    assert found is not None, (page, heading, language)
    return found[2]


def program(folder: Path, language: str, *code: str) -> str:
    if language == "r" and shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    name = f"train.{ENDING[language]}"
    (folder / name).write_text("\n".join(code))
    return name


def shell(folder: Path, code: str, *, program: str = "train.py") -> str:
    """Run commands of a page, which are for train.py."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", code.replace("train.py", program)],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def session(folder: Path, language: str, *code: str) -> str:
    """Run code in a session of Python or R."""
    path = folder / f"session.{ENDING[language]}"
    path.write_text("\n".join(code))
    return shell(folder, shlex.join([sys.executable if language == "python" else "Rscript", str(path)]))


def only_run(folder: Path) -> tfmuster.Run:
    (run,) = tfmuster.runs(folder / "runs")
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for number in range(3):
        lines = [f"{row % 7},{row % 5},{row % 11}" for row in range(number, 400 + number)]
        (tmp_path / "data" / f"{number}.csv").write_text("\n".join(["area,rooms,price", *lines, ""]))
    return tmp_path


@LANGUAGES
def test_data_larger_than_memory(language: str, folder: Path) -> None:
    page = "how-to/large-data.md"
    name = program(folder, language, MODEL[language], block(page, "# Data", language))
    shell(folder, block(page, "# Data", "sh"), program=name)
    run = only_run(folder)
    assert len(run.status()["tasks"]) == 4 and len(run.history()["loss"]) == 5


@LANGUAGES
def test_stop_with_a_checkpoint_and_resume(language: str, folder: Path) -> None:
    """The pages' own way: a training with checkpoints, which a terminal or a session stops and resumes."""
    page = "tutorials/failures.md"
    data = block("how-to/large-data.md", "# Data", language).partition("fit(")[0].partition("saving")[0]
    data = data.replace("model.", "")
    fit = block(page, "## Write checkpoints", language).replace(
        "20", "600" if language == "python" else "20000"
    )
    name = program(folder, language, MODEL[language], data, fit)
    shell(folder, "tfmuster launch --detach -n 2 --max-restarts 3 train.py", program=name)
    run = only_run(folder)
    wait_until(lambda: len(run.history().get("loss", [])) > 2)
    if language == "python":
        # The command follows the run to its end, as `launch` does.
        shell(folder, block(page, "## Stop, and resume later", "sh"))
        assert run.status()["state"] == "done" and len(run.history()["loss"]) == 600
    else:
        opened = "library(tfmuster)\nrun <- run_open('train')"
        session(folder, "r", opened, block(page, "## Stop, and resume later", "r"))
        stopped = len(run.history()["loss"])
        wait_until(lambda: len(run.history()["loss"]) > stopped + 2)
        assert run.stop()["state"] == "interrupted"


def wait_until(true: Callable[[], bool], limit: float = 100) -> None:
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


@LANGUAGES
def test_grow_the_batch(language: str, folder: Path) -> None:
    page = "how-to/batches.md"
    grow = block(page, "## Grow the batch", language)
    rate = block(page, "## Adapt the learning rate", "python") if language == "python" else ""
    name = program(folder, language, MODEL[language], ROWS[language], rate and "workers = 4", rate, grow)
    shell(folder, f"tfmuster launch -n 2 {name}")
    assert len(only_run(folder).history()["loss"]) == 10


def test_grow_the_batch_of_a_program_as_it_is(folder: Path) -> None:
    alone = PYTHON.replace('strategy = tfmuster.strategy("multi_worker_mirrored")', "").replace(
        "with strategy.scope():", "if True:"
    )
    program(folder, "python", alone, ROWS["python"], "model.fit(x, y, batch_size=64, epochs=2)")
    shell(folder, block("how-to/batches.md", "## Grow the batch", "sh"))
    run = only_run(folder)
    assert len(run.history()["loss"]) == 2
    assert "3/3" in run.logs("worker 0")["worker 0"]


#: The model that the page leaves to its reader, also without a strategy.
MAKE_MODEL = {
    "python": """
import keras
def make_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model
""",
    "r": """
make_model <- function() {
  keras <- reticulate::import("keras")
  layers <- list(keras$Input(list(2L)), keras$layers$Dense(4L), keras$layers$Dense(1L))
  model <- keras$Sequential(layers)
  model$compile("sgd", "mse")
  model
}
""",
}


@LANGUAGES
def test_several_fits(language: str, folder: Path) -> None:
    page = "how-to/several-fits.md"
    folds = block(page, "## One model for each fold", language).replace("library(keras3)\n", "")
    more = block(page, "## Change a model", language)
    # In R, the model of the last fold stays within its function.
    again = "with(strategy$scope(), {\n  model <- make_model()\n})" if language == "r" else ""
    name = program(folder, language, ROWS[language], MAKE_MODEL[language], folds, again, more)
    said = shell(folder, f"tfmuster launch -n 2 {name}")
    run = only_run(folder)
    assert len(run.history()["loss"]) == 35
    assert {each.name for each in run.path.glob("checkpoints*")} == {
        "checkpoints",
        *(f"checkpoints-{number}" for number in range(2, 6)),
    }
    (mean,) = set(re.findall(r"^\S+ \S+ \| loss (\S+)", said, re.MULTILINE))
    assert float(mean) < 0.1


def test_several_fits_of_a_program_as_it_is(folder: Path) -> None:
    page = "how-to/several-fits.md"
    folds = block(page, "## One model for each fold", "python")
    plain = folds.replace("import tfmuster\n", "").replace(", callbacks=[tfmuster.checkpoint_callback()]", "")
    plain = plain.replace('strategy = tfmuster.strategy("multi_worker_mirrored")\n', "")
    plain = plain.replace("with strategy.scope():", "if True:")
    assert "strategy" not in plain and "tfmuster" not in plain
    name = program(folder, "python", ROWS["python"], MAKE_MODEL["python"], plain)
    alone = shell(folder, f"{shlex.quote(sys.executable)} {name}")
    said = shell(folder, block(page, "## One model for each fold", "sh"))
    (mean,) = set(re.findall(r"^\S+ \S+ \| loss (\S+)", said, re.MULTILINE))
    assert float(mean) < 0.1 and re.search(r"^loss \S+$", alone, re.MULTILINE)
    assert len(only_run(folder).history()["loss"]) == 25


@LANGUAGES
def test_tensorboard(language: str, folder: Path) -> None:
    page = "how-to/tensorboard.md"
    fit, _, look = block(page, "## TensorBoard", language).partition("# in the session")
    name = program(folder, language, MODEL[language], ROWS[language], fit)
    shell(folder, f"tfmuster launch -n 2 {name}")
    run = only_run(folder)
    assert list((run.path / "tensorboard").rglob("events.out.tfevents.*"))
    shell(folder, block(page, "## Curves of a run", "sh"))
    assert (run.path / "report.html").exists()
    assert run.name in shell(folder, block(page, "## Compare runs", "sh"))
    curves, compare = (
        block(page, heading, language) for heading in ("## Curves of a run", "## Compare runs")
    )
    session(folder, language, "library(tfmuster)" if language == "r" else "", curves, compare)
    if language == "r":
        said = session(
            folder,
            "r",
            "library(tfmuster)\nrun <- run_open('train')",
            look.partition("\n")[2],
            "cat('opened\\n')",
        )
        assert "opened" in said
        # TensorBoard's server stays until someone ends it.
        servers = [int(text.split(":")[0]) for text in processes_in(folder)]
        assert servers
        for server in servers:
            # The server of the data ends with the other.
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(server).kill()


@LANGUAGES
def test_one_machine(language: str, folder: Path) -> None:
    page = "tutorials/one-machine.md"
    first, function, background = (
        block(page, heading, language)
        for heading in ("## Train in one process", "## Launch a function", "## Launch a script")
    )
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8").partition("## 2. Put two lines")[2]
    script = re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    assert script is not None
    program(folder, language, script[1])
    if language == "python":
        session(folder, "python", first, function)
        session(folder, "python", "import tfmuster", background)
    else:
        session(folder, "r", first, function, background.replace(", follow = TRUE", ""))
    states = sorted(run.status()["state"] for run in tfmuster.runs(folder / "runs"))
    # R keeps the runs of functions in the user's cache.
    assert states == (["done", "interrupted"] if language == "python" else ["interrupted"])


@LANGUAGES
def test_notebooks(language: str, folder: Path) -> None:
    page = "how-to/notebooks.md"
    code = [block(page, "# Notebooks", language), block(page, "## Many calls", language)]
    if language == "r":
        options = block(page, "## Quarto and R Markdown", "r")
        session(folder, "r", "library(tfmuster)", options, *code)
    else:
        session(folder, "python", *code)
    assert len(tfmuster.runs(folder / "runs")) == 4
