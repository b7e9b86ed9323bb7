"""Keras on JAX in jobs of two processes."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support import jax
from support.jobs import free_addresses
from support.launching import names, nothing_left, only_run, read_json, states, write
from support.paths import PROGRAMS, ROOT
from tfmuster.cluster.spec import Cluster
from tfmuster.cluster.tf_config import task_variables

pytestmark = pytest.mark.slow


def test_variables_of_a_worker() -> None:
    cluster = Cluster(chief=["a:1"], worker=["b:2", "c:3"], evaluator=["d:4"])
    said = task_variables(cluster.task("worker", 1), {"KERAS_BACKEND": "jax"})
    assert {name: value for name, value in said.items() if name.startswith(("KERAS_", "JAX_"))} == {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "a:1,b:2,c:3",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "3",
        "KERAS_DISTRIBUTION_PROCESS_ID": "2",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }
    for other in (
        task_variables(cluster.task("evaluator", 0), {"KERAS_BACKEND": "jax"}),
        task_variables(cluster.task("worker", 1), {"KERAS_BACKEND": "tensorflow"}),
    ):
        assert not any(name.startswith(("KERAS_", "JAX_")) for name in other)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """The folder of a job, and what the program said in one process and in each of two workers."""
    folder = tmp_path_factory.mktemp("jax")
    for name in ("one", "two"):
        (folder / name).mkdir()
    program = PROGRAMS / "jax_training.py"
    alone = jax.run(program, folder / "one", "alone", cwd=folder)
    assert alone.returncode == 0, alone.stderr
    job = jax.launch(program, folder / "two", cwd=folder)
    assert job.returncode == 0, job.stdout + job.stderr
    workers = [read_json(folder / "two" / f"said-{index}.json") for index in range(2)]
    return folder, read_json(folder / "one" / "said-0.json"), workers


def close(one: Any, two: Any) -> None:
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_data_parallel_has_the_numbers_of_one_process(trained: Any) -> None:
    _, alone, workers = trained
    assert [said["processes"] for said in (alone, *workers)] == [1, 2, 2]
    assert workers[0]["data"]["weights"] == workers[1]["data"]["weights"]
    for mine, theirs in zip(alone["data"]["weights"], workers[0]["data"]["weights"], strict=True):
        close(mine, theirs)
    for said in workers:
        assert len(said["data"]["history"]["loss"]) == 2
        for name in ("loss", "mae"):
            close(said["data"]["history"][name], alone["data"]["history"][name])
        close(said["data"]["evaluate"], alone["data"]["evaluate"])
        close(said["data"]["predict"], alone["data"]["predict"])
        close(said["batches"]["loss"], alone["batches"]["loss"])


def test_model_parallel_has_half_of_a_kernel_on_each_worker(trained: Any) -> None:
    _, alone, workers = trained
    assert [said["model"]["whole"] for said in (alone, *workers)] == [[8, 16]] * 3
    assert [said["model"]["shard"] for said in (alone, *workers)] == [[8, 16], [8, 8], [8, 8]]
    halves = [said["model"]["kernel"] for said in workers]
    close(np.concatenate(halves, axis=1), alone["model"]["kernel"])
    for said in workers:
        close(said["model"]["evaluate"], alone["model"]["evaluate"])
        close(said["model"]["predict"], alone["model"]["predict"])
        for mine, theirs in zip(alone["model"]["weights"], said["model"]["weights"], strict=True):
            close(mine, theirs)


def test_the_chief_writes_the_files(trained: Any) -> None:
    folder, alone, workers = trained
    assert names(folder / "two") == [
        "backup",
        "data.keras",
        "log.csv",
        "model.keras",
        "said-0.json",
        "said-1.json",
    ]
    assert len((folder / "two" / "log.csv").read_text().splitlines()) == 3
    # The kernel that the workers have in halves is whole in the file.
    with zipfile.ZipFile(folder / "two" / "model.keras") as archive, archive.open("model.weights.h5") as file:
        wide = h5py.File(file)["layers/dense/vars/0"][:]
    close(wide, alone["model"]["kernel"])
    # The other worker resumes from the chief's backup: one epoch of three is left.
    assert [said["resumed"] for said in (alone, *workers)] == [1, 1, 1]
    run = only_run(folder)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    close([line["loss"] for line in metrics[:2]], alone["data"]["history"]["loss"])
    assert states(folder) == {"worker 0": ("done", 0), "worker 1": ("done", 0)}


def test_what_is_refused_in_a_job(trained: Any) -> None:
    for said in trained[2]:
        refused = said["refused"]
        reason, message, found, fix = refused["no distribution"]
        assert (reason, found) == ("not-distributed", "fit() without a keras.distribution")
        assert "2 workers" in message and "keras.distribution.set_distribution(" in fix
        assert refused["own devices"][0] == "not-distributed"
        assert refused["own devices"][2].endswith("a DataParallel without devices of all workers")
        reason, _, found, fix = refused["rows"]
        assert (reason, found) == ("batch-size", "a batch of 7 rows") and "drop_remainder=True" in fix
        instead = {
            "strategy": "keras.distribution.set_distribution()",
            "checkpoint_callback": "keras.callbacks.BackupAndRestore",
            "own_rows": "auto_shard_dataset=False",
            "distributed_step": "jax.jit",
            "evaluate_checkpoints": "validation_data",
            "ps_fit": "keras.distribution",
            "train_mnist": "a model of your own",
        }
        for function, advice in instead.items():
            reason, message, found, fix = refused[function]
            assert (reason, found) == ("backend", "the backend jax")
            assert message == f"{function}() is for Keras on TensorFlow."
            assert fix.startswith("on JAX, ") and advice in fix


#: What the errors of workers that differ say.
DIFFERENT = {
    "steps": "when fit begins: worker 0 has 5 steps, worker 1 has 4 steps",
    "order": "when fit begins: worker 0 has rows with the numbers ",
    "order in an epoch": "The workers have read other rows in epoch 1, or the same in another order.",
    "order in evaluate": "The workers have read other rows in evaluate, or the same in another order.",
    "shard": "when fit begins: worker 0 has data set TensorSlice > Batch(4) > Shard(2, 0), worker 1 has ",
    "batch size": "when fit begins: worker 0 has data set TensorSlice > Batch(16) > Take(3), worker 1 has "
    "data set TensorSlice > Batch(24) > Take(3)",
    "epochs": "when fit begins: worker 0 has 1 epochs, worker 1 has 2 epochs",
    "optimizer": "when fit begins: worker 0 has optimizer: ",
    "validation": "when fit begins: worker 0 has validation False, worker 1 has validation True",
    "evaluate": "when evaluate begins: worker 0 has 5 steps, worker 1 has 4 steps",
    "predict": "when predict begins: worker 0 has 5 steps, worker 1 has 4 steps",
    "call": "must make the same call. They differ: worker 0: fit; worker 1: evaluate",
    "weight": "when they make a weight: worker 0 has weight sequential/wide/kernel (8, 4) float32, "
    "worker 1 has weight sequential/wide/kernel (8, 5) float32",
    "own steps": "when fit begins: worker 0 has 5 steps, worker 1 has 4 steps",
}


def test_workers_that_differ_are_told_before_the_first_step(trained: Any) -> None:
    for said in trained[2]:
        for name, words in DIFFERENT.items():
            reason, message, _, fix = said["refused"][name]
            assert reason == "workers-differ" and words in message, (name, message)
            assert "tfmuster.own_rows" not in fix
        assert "DataParallel(auto_shard_dataset=False)" in said["refused"]["order"][3]
        assert said["unknown length"] == 2
        # A callback of one worker stops both after the same epoch.
        assert said["stopped"] == 1


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raise", "ArithmeticError: two and two are five"),
        ("sleep", "stalled: worker 0 waited"),
        ("end", "The data of fit ended on this worker before those of worker 0."),
        ("leave", "stalled: worker 0 still needs worker 1, which finished its program."),
        ("label", "A label must be one of the model's 3 classes, 0 to 2.\n  found: label 3\n"),
    ],
)
def test_the_first_failure_is_named(what: str, message: str, tmp_path: Path) -> None:
    done = jax.launch("--stall-timeout", 5, PROGRAMS / "jax_failing.py", what, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    failure = read_json(only_run(tmp_path) / "error.json")
    said = failure["error"]
    assert failure["task"] == "worker 1" and message in said, failure
    if what in ("sleep", "leave"):
        assert "worker 0 (" in said and "inside a step or another JAX call" in said
        assert names(only_run(tmp_path) / "stacks") == ["worker-0.txt", "worker-1.txt"]
    nothing_left(tmp_path, 5)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    import tensorflow as tf

    for number in range(64):
        row = tf.io.serialize_tensor(tf.zeros([8])).numpy()
        (tmp_path / f"{number}.txt").write_bytes(b"no tensor" if number == 45 else row)
    done = jax.launch(PROGRAMS / "jax_failing.py", "file", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Every row of the data must be readable." in done.stderr
    assert "(45.txt)" in done.stderr
    nothing_left(tmp_path, 5)


def one_of_two(
    program: Path, *options: str, kind: str = "worker", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a program as one task of a job whose other tasks never start."""
    jobs = {"worker": free_addresses(2), **({} if kind == "worker" else {kind: free_addresses(1)})}
    config = json.dumps({"cluster": jobs, "task": {"type": kind, "index": 0}})
    command = ("-m", "tfmuster", "worker", *options, "--", program)
    return jax.run(*command, "raise", cwd=program.parent, TF_CONFIG=config, **env)


def test_a_missing_worker_is_named() -> None:
    done = one_of_two(PROGRAMS / "jax_failing.py", "--start-timeout", "4")
    assert done.returncode == 3, done.stderr
    assert re.search(r"worker 1 \(127\.0\.0\.1:\d+\)", done.stderr), done.stderr


@pytest.mark.fresh  # they see Keras imported
def test_programs_and_tasks_that_are_refused() -> None:
    alone = PROGRAMS / "jax_alone.py"
    done = one_of_two(alone)
    assert done.returncode != 0 and "found: fit() before keras.distribution.initialize()" in done.stderr
    for line in ("keras.distribution.initialize()", "DataParallel())", "--independent"):
        assert line in done.stderr
    assert "--distribute" not in done.stderr
    assert one_of_two(alone, TFMUSTER_INDEPENDENT="1").stdout == "trained\n"
    done = one_of_two(alone, TFMUSTER_DISTRIBUTE="1")
    assert done.returncode != 0 and "--distribute is for Keras on TensorFlow." in done.stderr
    done = one_of_two(PROGRAMS / "jax_failing.py", kind="ps")
    assert done.returncode != 0 and "On JAX, a job has only workers and a chief." in done.stderr


def test_the_program_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "coming-from" / "jax.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert program is not None
    write(tmp_path, "train.py", program[1])
    # The program itself chooses the backend, which the launcher can't know.
    done = jax.launch("train.py", cwd=tmp_path, KERAS_BACKEND="")
    assert done.returncode == 0, done.stdout + done.stderr
    alone = jax.launch("-n", 1, "--run-dir", tmp_path / "alone", "train.py", cwd=tmp_path, KERAS_BACKEND="")
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert names(tmp_path) == ["alone", "model.keras", "runs", "train.py"]
    assert len((only_run(tmp_path) / "metrics.jsonl").read_text().splitlines()) == 3
