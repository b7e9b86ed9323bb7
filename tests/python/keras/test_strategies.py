"""Every strategy by its name, and every refusal, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.jobs import cluster_of_one, free_addresses, run_job, succeeded
from support.launching import python, tfmuster
from support.paths import PROGRAMS

pytestmark = pytest.mark.timeout(120)


def run(code: str, **environment: str) -> str:
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    if "TF_CONFIG" not in environment:
        environ.pop("TF_CONFIG", None)
    done = subprocess.run(
        [sys.executable, PROGRAMS / "snippet.py", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def refusal(code: str, **environment: str) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(run(code, **environment))
    assert error["kind"] == "strategy"
    return error


START = "import tensorflow as tf; tf.constant(1)"
FIT = """
import keras, numpy as np, tfmuster
strategy = tfmuster.strategy({arguments})
keras.utils.set_random_seed(1)
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(np.ones((16, 4)), np.ones((16, 1)), batch_size=8, epochs=2, verbose=0)
print(type(strategy).__name__, strategy.num_replicas_in_sync)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("'default'", "_DefaultDistributionStrategy 1"),
        ("'one_device'", "OneDeviceStrategy 1"),
        ("'one_device', devices=['CPU:0']", "OneDeviceStrategy 1"),
        ("'mirrored', replicas=2", "MirroredStrategy 2"),
        ("'mirrored', replicas=4", "MirroredStrategy 4"),
        ("'mirrored', devices=['/cpu:0', 'CPU:1']", "MirroredStrategy 2"),
        ("'central_storage'", "CentralStorageStrategyV1 1"),
        ("'central_storage', replicas=2", "CentralStorageStrategy 2"),
    ],
)
def test_keras_trains_under(arguments: str, expected: str) -> None:
    name, replicas = run(FIT.format(arguments=arguments)).split()
    assert replicas == expected.split()[1]
    assert name.startswith(expected.split(maxsplit=1)[0].removesuffix("V1"))


@pytest.mark.slow
def test_keras_trains_under_multi_worker_mirrored_with_one_worker() -> None:
    assert run(FIT.format(arguments="'multi_worker_mirrored'"), TF_CONFIG=cluster_of_one()) == (
        "CollectiveAllReduceStrategy 1"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        ("tfmuster.strategy('mirrored', devices=['GPU:7'])", "no-device", "devices of this machine: CPU:0"),
        ("tfmuster.strategy('one_device', devices=['nonsense'])", "no-device", "'nonsense'"),
        ("tfmuster.strategy('one_device', devices=['CPU:0', 'CPU:1'])", "devices", "exactly one device"),
        ("tfmuster.strategy('mirrored', devices=['CPU:0', '/cpu:0'])", "devices", "once"),
        ("tfmuster.strategy('mirrored', devices=['CPU:0'], replicas=2)", "devices", "not both"),
        ("tfmuster.strategy('mirrored', replicas=0)", "replicas", "at least 1"),
        ("tfmuster.strategy('mirrored', replicas=1.5)", "replicas", "at least 1"),
        ("tfmuster.strategy('mirrored', replicas='2')", "replicas", "at least 1"),
        (f"{START}; tfmuster.strategy('mirrored', replicas=2)", "already-started", "before all tensors"),
        ("tfmuster.strategy('tpu')", "no-tpu", "Please provide a TPU Name"),
    ],
)  # fmt: skip
def test_refusals_on_one_machine(code: str, reason: str, text: str) -> None:
    error = refusal(f"import tfmuster; {code}")
    assert error["reason"] == reason
    assert text in error["text"]


@pytest.mark.slow
def test_tensorflow_has_started() -> None:
    error = refusal(
        f"import tfmuster; {START}; tfmuster.strategy('multi_worker_mirrored')", TF_CONFIG=cluster_of_one()
    )
    assert error["reason"] == "already-started"
    assert "make the strategy before" in error["text"] and "library(" not in error["text"]


#: A program that starts TensorFlow in its line 4, before it makes one of these strategies.
LATE = """import tensorflow as tf
import tfmuster
def data():
    return tf.data.Dataset.range(4)
data()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy", ["tfmuster.strategy('multi_worker_mirrored')", "tf.distribute.MultiWorkerMirroredStrategy()"]
)
def test_the_line_that_started_tensorflow_is_named(strategy: str, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE + strategy)
    done = tfmuster("launch", "-n", 1, "late.py", cwd=tmp_path, limit=100)
    assert done.returncode == 1
    assert "TensorFlow has already started in this process, so it can't join a cluster." in done.stderr
    assert "found: it was started by late.py, line 4: return tf.data.Dataset.range(4)\n" in done.stderr


@pytest.mark.slow
def test_a_program_that_is_started_as_it_is_trains_as_one_worker(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIT.format(arguments="'multi_worker_mirrored'"))
    done = python("train.py", cwd=tmp_path)
    assert done.stdout.split() == ["CollectiveAllReduceStrategy", "1"], done.stderr
    about = "one worker trains, because TF_CONFIG is not set; `tfmuster launch -n 2 train.py` starts two"
    assert done.stderr.count(f"tfmuster: {about}\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables", [{"TFMUSTER_STRICT": "1"}, {"SLURM_JOB_ID": "7"}, {"PBS_JOBID": "7.server"}]
)
def test_a_job_is_named_where_there_must_be_a_cluster(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text("import tfmuster\ntfmuster.strategy('multi_worker_mirrored')")
    done = python("train.py", cwd=tmp_path, **variables)
    assert done.returncode == 1
    assert "to do: start the program with `tfmuster launch -n 2 train.py`, in a job" in done.stderr


@pytest.mark.slow
def test_a_cell_that_is_run_again_gets_the_same_strategy() -> None:
    code = "import tfmuster; print(len({id(tfmuster.strategy('multi_worker_mirrored')) for _ in range(2)}))"
    assert run(code, TF_CONFIG=cluster_of_one()) == "1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("", "with another communication.\n  found: communication='tensorflow', the first has 'auto'"),
        (
            "os.environ['TF_CONFIG'] = os.environ['OTHER']; ",
            "another cluster.\n  found: this is worker 0 at ",
        ),
    ],
)
def test_second_multi_worker_strategy(change: str, text: str) -> None:
    code = "import os, tfmuster; make = tfmuster.strategy; make('multi_worker_mirrored'); "
    code += change + "make('multi_worker_mirrored', communication='tensorflow')"
    error = refusal(code, TF_CONFIG=cluster_of_one(), OTHER=cluster_of_one())
    assert error["reason"] == "second-strategy"
    assert text in error["text"]


@pytest.mark.slow
def test_a_missing_worker_is_named_in_time() -> None:
    there, missing = free_addresses(2)
    config = {"cluster": {"worker": [there, missing]}, "task": {"type": "worker", "index": 0}}
    code = "import tfmuster; tfmuster.strategy('multi_worker_mirrored', start_timeout=2)"
    error = json.loads(run(code, TF_CONFIG=json.dumps(config)))
    assert error["kind"] == "rendezvous"
    assert f"worker 1 ({missing}) is missing" in error["text"]


@pytest.mark.slow
@pytest.mark.fresh
def test_workers_agree_on_a_seed_that_nobody_has_set() -> None:
    done = succeeded(run_job("unseeded.py", 2, limit=90, env={"PYTHONHASHSEED": "random"}))
    assert done[0].stdout == done[1].stdout != ""
    assert "own True" in done[0].stdout
    advice = "set the same seed: export PYTHONHASHSEED=0\n"
    assert all(advice in process.stderr for process in done)
    again = succeeded(run_job("unseeded.py", 2, limit=90, env={"PYTHONHASHSEED": "0"}))
    assert again[0].stdout != done[0].stdout
    assert not any(advice in process.stderr for process in again)


@pytest.mark.slow
def test_survivors_learn_the_cause_and_end() -> None:
    done = run_job("failing_worker.py", 2, limit=60)
    assert [process.returncode for process in done] == [1, 1]
    assert "worker 1 (host" in done[0].stderr
    assert "ValueError: planted" in done[0].stderr
