"""The programs of the documents that users have run as they stand, on several workers.

Only their data come from a local file, and R's keras is keras3, or Python's Keras by reticulate. The programs
are in programs/documents.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.jobs import free_addresses
from support.launching import environment, only_run, tfmuster
from support.paths import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
LIMIT = 300
LOCAL_MNIST = """
import numpy as np
import tensorflow as tf

def load_data():
    with np.load("mnist.npz") as file:
        return (file["x"], file["y"]), (file["x"], file["y"])

def load():
    (x, y), _ = load_data()
    return {"train": tf.data.Dataset.from_tensor_slices((x[..., None], y))}
"""
LOCAL_INPUT_DATA = """
import types
import numpy as np

class Split:
    def __init__(self, x, y):
        self.images, self.labels, self.num_examples, self.at = x, y, len(x), 0

    def next_batch(self, n):
        rows = np.arange(self.at, self.at + n) % self.num_examples
        self.at += n
        return self.images[rows], self.labels[rows]

def read_data_sets(folder, one_hot):
    with np.load("mnist.npz") as file:
        split = file["x"].reshape(-1, 784) / 255, np.eye(10)[file["y"]]
    return types.SimpleNamespace(train=Split(*split), test=Split(*split))
"""
LOCAL_MNIST_R = """
dataset_mnist <- function() {
  file <- reticulate::import("numpy")$load("mnist.npz")
  rows <- list(x = file$f[["x"]], y = file$f[["y"]])
  list(train = rows, test = rows)
}
"""
#: Arguments of document 001: the place of each task.
PLACES = ["--job_name", "{type}", "--task_index", "{index}"]
PLACES += ["--ps_hosts", "{ps_hosts}", "--worker_hosts", "{worker_hosts}"]
#: What Keras shows of an epoch.
EPOCH = re.compile(r"(accuracy: [\d.]+ - loss: [\d.]+)")


def has_keras3() -> bool:
    try:
        asked = ["Rscript", "-e", "quit(status = !requireNamespace('keras3', quietly = TRUE))"]
        return subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


NEEDS_KERAS3 = pytest.mark.skipif(not has_keras3(), reason="needs R's keras3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with MNIST, or what looks like it, in a local file."""
    random = np.random.default_rng(1)
    y = random.integers(0, 10, 1000).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x=random.integers(0, 255, (1000, 28, 28)).astype(np.uint8), y=y)
    (tmp_path / "local_mnist.py").write_text(LOCAL_MNIST)
    return tmp_path


def place(folder: Path, name: str, before: str = "") -> str:
    """Put a program into the folder, with the local data, and lines before its own."""
    text = (PROGRAMS / "documents" / name).read_text()
    if name.endswith(".R"):
        text = LOCAL_MNIST_R + text
    text = text.replace("tf.keras.datasets.mnist", "__import__('local_mnist')")
    (folder / name).write_text(before + text)
    return name


def trained_alike(said: list[str], epochs: int) -> None:
    """Every worker has shown the same numbers at the end of each epoch."""
    # What is shown in an epoch depends on the time.
    parts = [re.split(r"Epoch \d+/\d+", text)[1:] for text in said]
    seen = [[EPOCH.findall(part)[-1] for part in of_one] for of_one in parts]
    assert len(seen[0]) >= epochs, said[0][-2000:]
    assert all(one == seen[0] for one in seen), seen


def launched(folder: Path, workers: int, *program: object) -> list[str]:
    done = tfmuster("launch", "-n", workers, *program, cwd=folder, limit=LIMIT, TF_CPP_MIN_LOG_LEVEL="3")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    logs = sorted((only_run(folder) / "logs").glob("worker-*.log"))
    assert len(logs) == workers
    return [log.read_text() for log in logs]


def in_terminals(
    folder: Path, programs: list[list[str]], environments: list[dict[str, str]] | None = None
) -> list[str]:
    """Start programs manually, one per terminal, with `tfmuster worker`. Return what they say."""
    started = []
    try:
        for program, env in zip(programs, environments or [{}] * len(programs), strict=True):
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tfmuster", "worker", "--", *program],
                    cwd=folder,
                    env=environment(TF_CPP_MIN_LOG_LEVEL="3", **env),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        said = [terminal.communicate(timeout=LIMIT)[0] for terminal in started]
    finally:
        for terminal in started:
            terminal.kill()
    assert [terminal.returncode for terminal in started] == [0] * len(programs), said
    return said


def exported(**tasks: int) -> list[dict[str, str]]:
    """What document 002 exports on each node."""
    cluster = {job: free_addresses(count) for job, count in tasks.items()}
    places = [(job, index) for job, count in tasks.items() for index in range(count)]
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"index": index, "type": job}})}
        for job, index in places
    ]


@pytest.mark.parametrize("workers", [2, 4])
def test_document_000_in_python(folder: Path, workers: int) -> None:
    trained_alike(launched(folder, workers, place(folder, "document_000.py")), 3)


@NEEDS_KERAS3
@pytest.mark.parametrize("workers", [2, 4])
def test_document_000_in_r(folder: Path, workers: int) -> None:
    trained_alike(launched(folder, workers, place(folder, "document_000.R")), 3)


def set_in_r(cluster: list[str], index: int) -> str:
    """What document 000 runs in the session of each worker before its program."""
    return f"""
Sys.setenv(TF_CONFIG = jsonlite::toJSON(list(
    cluster = list(
        worker = c({", ".join(f'"{address}"' for address in cluster)})
    ),
    task = list(type = 'worker', index = {index})
), auto_unbox = TRUE))
"""


@pytest.mark.parametrize(
    "name", [pytest.param("document_000.R", marks=NEEDS_KERAS3), "document_000_reticulate.R"]
)
def test_document_000_in_r_in_two_terminals(folder: Path, name: str) -> None:
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    cluster = free_addresses(2)
    programs = []
    for index in range(2):
        (folder / f"worker_{index}.R").write_text(
            (folder / place(folder, name, before=set_in_r(cluster, index))).read_text()
        )
        programs.append([f"worker_{index}.R"])
    trained_alike(in_terminals(folder, programs), 3)


#: As the program for Spark begins: each worker sets TF_CONFIG, and Python runs before keras3 is loaded.
IN_SPARK = """
library(tensorflow)
Sys.setenv(TF_CONFIG = jsonlite::toJSON(list(
  cluster = list(worker = c("172.17.0.6:8001", "172.17.0.3:8002")), task = list(type = 'worker', index = 0)
), auto_unbox = TRUE))
if (is.null(tf_version())) install_tensorflow()
invisible(tfmuster::current_task())
"""


@NEEDS_KERAS3
def test_document_000_in_r_with_python_running_before_keras3_is_loaded(folder: Path) -> None:
    said = launched(folder, 2, place(folder, "document_000.R", before=IN_SPARK))
    trained_alike(said, 3)
    assert all(text.count("the program sets TF_CONFIG itself") == 1 for text in said)


def test_document_002_with_the_program_of_000_on_two_nodes(folder: Path) -> None:
    trained_alike(in_terminals(folder, [[place(folder, "document_000.py")]] * 2, exported(worker=2)), 3)


@NEEDS_KERAS3
def test_document_002_with_the_program_of_004_in_r_on_two_nodes(folder: Path) -> None:
    trained_alike(in_terminals(folder, [[place(folder, "document_004.R")]] * 2, exported(worker=2)), 3)


def with_parameter_servers(said: str, workers: int) -> None:
    """All workers have added their 200 updates to the one step that is on the parameter server."""
    for worker in range(workers):
        assert f"worker={worker}, final accuracy = " in said
    steps = re.findall(r"epoch=19,global_step=(\d+), local_step=200", said)
    assert len(steps) == workers
    assert 195 * workers <= max(map(int, steps)) <= 200 * workers


def test_document_001_with_parameter_servers(folder: Path) -> None:
    (folder / "input_data.py").write_text(LOCAL_INPUT_DATA)
    name = place(folder, "document_001.py")
    done = tfmuster("launch", "-n", 4, "--ps", 1, name, *PLACES, cwd=folder, limit=LIMIT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with_parameter_servers(done.stdout, 4)


def test_document_001_in_three_terminals(folder: Path) -> None:
    (folder / "input_data.py").write_text(LOCAL_INPUT_DATA)
    program = [place(folder, "document_001.py"), *PLACES]
    with_parameter_servers("".join(in_terminals(folder, [program] * 3, exported(ps=1, worker=2))), 2)


def test_document_003_in_which_each_worker_sets_tf_config(folder: Path) -> None:
    # Its own lines are for two workers.
    said = launched(folder, 4, place(folder, "document_003.py"), "--index", "{index}")
    trained_alike(said, 2)
    assert all(text.count("the program sets TF_CONFIG itself") == 1 for text in said)


def test_document_003_in_two_terminals(folder: Path) -> None:
    name = place(folder, "document_003.py")
    text = (folder / name).read_text()
    for fixed, free in zip(("localhost:5050", "localhost:5051"), free_addresses(2), strict=True):
        text = text.replace(fixed, free)
    (folder / name).write_text(text)
    trained_alike(in_terminals(folder, [[name, "--index", str(index)] for index in range(2)]), 2)


def test_document_004_with_several_strategies(folder: Path) -> None:
    said = launched(folder, 4, place(folder, "document_004.py"))
    trained_alike(said, 3)
    for text in said:
        assert "mirrored 1\ncentral_storage 1\nmultiworker_mirrored 4\n" in text


def test_document_004_in_two_terminals(folder: Path) -> None:
    said = in_terminals(folder, [[place(folder, "document_004.py")]] * 2, exported(worker=2))
    trained_alike(said, 3)
    assert all("central_storage 1\nmultiworker_mirrored 2\n" in text for text in said)


def test_document_004_with_the_strategy_of_several_workers_first(folder: Path) -> None:
    text = (folder / place(folder, "document_004.py")).read_text()
    (several,) = (line for line in text.splitlines(keepends=True) if "experimental.MultiWorker" in line)
    own = next(line for line in text.splitlines(keepends=True) if "MirroredStrategy()" in line)
    (folder / "first.py").write_text(text.replace(several, "").replace(own, several + own))
    said = launched(folder, 2, "first.py")
    trained_alike(said, 3)
    assert all("multiworker_mirrored 2\nmirrored 1\ncentral_storage 1\n" in text for text in said)


@NEEDS_KERAS3
def test_document_004_in_r(folder: Path) -> None:
    trained_alike(launched(folder, 4, place(folder, "document_004.R")), 3)


#: Ways to make a strategy or a server in a cluster of two. `jobs` and `resolver` are what TF_CONFIG says.
WAYS = {
    "experimental": "tf.distribute.experimental.MultiWorkerMirroredStrategy()",
    "positional": "tf.distribute.MultiWorkerMirroredStrategy(resolver)",
    "compat.v1": "tf.compat.v1.distribute.experimental."
    "MultiWorkerMirroredStrategy(cluster_resolver=resolver)",
    "parameter server": "tf.distribute.experimental.ParameterServerStrategy(resolver)",
    "v1 parameter server": "tf.compat.v1.distribute.experimental.ParameterServerStrategy()",
    "server": "tf.distribute.Server(resolver.cluster_spec(), job_name='worker', task_index=0)",
    "other cluster": "tf.distribute.MultiWorkerMirroredStrategy(tf.distribute.cluster_resolver."
    "SimpleClusterResolver(tf.train.ClusterSpec({'worker': ['a:1', 'b:1']}), 'worker', 0))",
}


def test_every_strategy_names_a_missing_worker(tmp_path: Path) -> None:
    here, missing = free_addresses(2)
    (tmp_path / "make.py").write_text(
        "import sys, tensorflow as tf\n"
        "resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()\n"
        "eval(sys.argv[1])\n"
    )
    started = {}
    for number, (way, code) in enumerate(WAYS.items()):
        # Each has its own port, as they run at the same time.
        address = here if not number else free_addresses(1)[0]
        config = {"cluster": {"worker": [address, missing]}, "task": {"type": "worker", "index": 0}}
        started[way] = subprocess.Popen(
            [sys.executable, "-m", "tfmuster", "worker", "--start-timeout", "2", "--", "make.py", code],
            cwd=tmp_path,
            env=environment(TF_CONFIG=json.dumps(config), TF_CPP_MIN_LOG_LEVEL="3"),
            stderr=subprocess.PIPE,
            text=True,
        )
    said = {way: process.communicate(timeout=LIMIT)[1] for way, process in started.items()}
    other = said.pop("other cluster")
    assert "must use the cluster and the task of this job" in other, other
    assert "found: worker a:1, b:1" in other
    for way, text in said.items():
        assert f"worker 1 ({missing}) is missing" in text, (way, text)
        assert started[way].returncode == 3, way


def test_a_peers_failure_is_printed_once(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAMS / "failing_worker.py", cwd=tmp_path, limit=LIMIT)
    assert done.returncode == 1
    log = (only_run(tmp_path) / "logs" / "worker-0.log").read_text()
    assert log.count("tfmuster: worker 1 (host") == 1, log


def test_r_can_call_a_deprecated_name(tmp_path: Path) -> None:
    if not os.environ.get("RETICULATE_PYTHON"):
        pytest.skip("needs reticulate with this Python")
    (tmp_path / "old.R").write_text(
        'tf <- reticulate::import("tensorflow")\n'
        "made <- tf$distribute$experimental$MultiWorkerMirroredStrategy()\n"
        "dropped <- tf$compat$v1$nn$dropout(tf$ones(4L), keep_prob = 1.0)\n"
        'cat("made", made$num_replicas_in_sync, "\\n")\n'
    )
    assert "made 1" in launched(tmp_path, 1, "old.R")[0]
