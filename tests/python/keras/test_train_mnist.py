"""`train_mnist` and `tfmuster train mnist`: what they print, write, return and refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.jobs import free_addresses
from tfmuster.digits import datasets
from tfmuster.digits import train as training
from tfmuster.errors import DataError, ModelError

pytestmark = [pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def digits() -> datasets.Digits:
    return datasets.synthetic(seed=1, train=330, test=100)


def train(digits: datasets.Digits, **options: Any) -> training.TrainingResult:
    return training.train_mnist(
        **{"model": "softmax", "recipe": "document", "dataset": digits, "epochs": 2, "verbose": 0, **options}
    )


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delenv("TFMUSTER_RUN_DIR", raising=False)


pytestmark.append(pytest.mark.usefixtures("no_cluster"))


@pytest.mark.parametrize(
    ("option", "path", "text"),
    [
        ("save", "file/model.keras", "The model can't be written there."),
        ("save", "model.pb", "A model is saved as .keras"),
        ("save", "folder.keras", "Is a directory"),
        ("save", "thesis", "holds something else"),
        ("history", "file/history.json", "The history can't be written there."),
        ("history", "thesis", "Is a directory"),
    ],
)
def test_a_path_that_can_not_be_written_is_refused_before_training(
    digits: datasets.Digits,
    tmp_path: Path,
    *,
    option: str,
    path: str,
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.keras").mkdir()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1").touch()
    with pytest.raises(ModelError) as caught:
        train(digits, verbose=1, **{option: tmp_path / path})
    assert text in str(caught.value)
    assert "epoch" not in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 3


def test_result_and_what_is_printed(digits: datasets.Digits, capsys: pytest.CaptureFixture[str]) -> None:
    result = train(digits, verbose=2, validation_split=0.1)
    assert result.global_batch_size == result.batch_size == 100
    assert result.replicas == 1
    assert sorted(result.history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert all(len(values) == 2 for values in result.history.values())
    assert 0 <= result.test_accuracy <= 1
    assert "these are not the MNIST digits" in result.dataset
    said = capsys.readouterr().out.splitlines()
    assert said[0] == result.dataset
    assert said[1] == (
        "model: softmax, document recipe; 2 epochs of 3 steps; 100 images per replica x 1 = global batch 100"
    )
    assert (
        said[2]
        == "worker 0 of 1 reads rows 0-99 of each global batch of 100, and rows 0-96 of the last one of 97"
    )
    assert re.fullmatch(
        r"epoch 1/2  accuracy 0\.\d{4}  loss \d+\.\d{4}  val_accuracy 0\.\d{4}  val_loss \d+\.\d{4}"
        r"  [\d,]+ images/s  \d+\.\d s",
        said[3],
    )
    assert said[5] == f"test accuracy {result.test_accuracy:.4f}, loss {result.test_loss:.4f}"


def test_same_seed_same_weights_and_another_seed_others(digits: datasets.Digits) -> None:
    first, again, other = (train(digits, model="mlp", seed=seed).model.get_weights() for seed in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (first[0] != other[0]).any()


def test_files(digits: datasets.Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFMUSTER_RUN_DIR", str(tmp_path))
    result = train(digits, save=tmp_path / "m.keras", history=tmp_path / "deep" / "h.json")
    document = json.loads((tmp_path / "deep" / "h.json").read_text())
    assert document == result.to_dict()
    assert result.model_path == str(tmp_path / "m.keras")
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert [line["loss"] for line in lines] == pytest.approx(result.history["loss"])
    assert all(line["images_per_second"] > 0 for line in lines)


def test_the_quick_recipe_says_what_it_is_and_learns(capsys: pytest.CaptureFixture[str]) -> None:
    result = training.train_mnist("softmax", dataset="synthetic")
    assert "model: softmax, quick recipe; 3 epochs of 200 steps" in capsys.readouterr().out
    assert result.test_accuracy > 0.8


def test_steps_per_epoch_zero_is_the_whole_set(
    digits: datasets.Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    train(digits, model="cnn", steps_per_epoch=0, epochs=1, verbose=1)
    assert "1 epochs of 6 steps; 64 images" in capsys.readouterr().out


def test_under_two_replicas_the_global_batch_is_twice_the_batch(digits: datasets.Digits) -> None:
    code = """
import tfmuster
digits = tfmuster.synthetic(seed=1, train=330, test=100)
two = tfmuster.strategy("mirrored", replicas=2)
result = tfmuster.train_mnist("softmax", dataset=digits, strategy=two, batch_size=50, epochs=2, verbose=0,
                              recipe="document")
print(result.history["loss"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    alone = train(digits, batch_size=100).history["loss"]
    assert json.loads(done.stdout) == pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"model": "resnet"}, ModelError, "unknown-model"),
        ({"epochs": 0}, ModelError, "epochs"),
        ({"epochs": 1.5}, ModelError, "epochs"),
        ({"batch_size": True}, ModelError, "batch-size"),
        ({"steps_per_epoch": -1}, ModelError, "steps-per-epoch"),
        ({"validation_split": 1.0}, ModelError, "validation-split"),
        ({"learning_rate": -1}, ModelError, "learning-rate"),
        ({"optimizer": "adamant"}, ModelError, "optimizer"),
        ({"initial_weights": "ones"}, ModelError, "initial-weights"),
        ({"dataset": "nowhere.npz"}, DataError, None),
    ],
)
def test_refusals(
    digits: datasets.Digits, options: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error) as caught:
        train(digits, **options)
    if reason is not None:
        assert caught.value.fields["reason"] == reason  # type: ignore[attr-defined]


# ---- the command -------------------------------------------------------------------------------------------


def command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "tfmuster", "train", "mnist", *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


SHORT = ("--dataset", "synthetic", "--epochs", "1", "--steps-per-epoch", "2")


@pytest.mark.slow
def test_the_command_that_is_run_on_each_machine(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"worker": free_addresses(2)}))
    options = [
        "--cluster",
        str(cluster),
        "--type",
        "worker",
        *SHORT,
        "--verbose",
        "--save",
        str(tmp_path / "m.keras"),
    ]
    workers = [command(*options, "--index", str(index)) for index in range(2)]
    outputs = [worker.communicate(timeout=150) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    assert "64 images per replica x 2 = global batch 128" in outputs[0][0]
    assert f"model saved in {tmp_path / 'm.keras'}" in outputs[0][0]
    assert outputs[1][0] == (
        "worker 1 of 2 reads rows 64-127 of each global batch of 128, and rows 8-15 of the last one of 16\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--epochs", "0"], 2, "--epochs takes a whole number of at least 1.\n  found: 0"),
        (["--model", "x"], 2, "--model takes one of cnn, deep_cnn, mlp, softmax.\n  found: x"),
        (["--worker", "a:1", "--worker", "b:1"], 2, "add --type and --index"),
        (["--worker", "a:1", "--type", "worker", "--index", "3"], 2, "the last index is 0"),
        (["--strategy", "x", "--dataset", "synthetic"], 2, "There is no strategy 'x'"),
    ],
)
def test_the_command_refuses(arguments: list[str], code: int, text: str) -> None:
    process = command(*arguments)
    _, said = process.communicate(timeout=100)
    assert process.returncode == code, said
    assert text in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_real_digits_on_two_workers_like_on_one_process(tmp_path: Path) -> None:
    """The short form of benchmarks/accuracy.py."""
    data = os.environ.get("TFMUSTER_MNIST")
    if not data:
        pytest.skip("needs real digits: set TFMUSTER_MNIST to the path of mnist.npz")
    options = ["--optimizer", "adam", "--learning-rate", "0.001", "--epochs", "3", "--steps-per-epoch", "0"]
    accuracy = {}
    for workers, batch_size in ((1, 128), (2, 64)):
        history = tmp_path / f"{workers}.json"
        train = ["tfmuster", "train", "mnist", "--dataset", data, *options, "--batch-size", str(batch_size)]
        launch = [
            "tfmuster",
            "launch",
            "-n",
            str(workers),
            "--quiet",
            "--run-dir",
            str(tmp_path / f"run-{workers}"),
            "--",
        ]
        done = subprocess.run(
            [sys.executable, "-m", *launch, *train, "--history", str(history)],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        accuracy[workers] = json.loads(history.read_text())["test_accuracy"]
    assert accuracy[2] > 0.94
    assert accuracy[2] == pytest.approx(accuracy[1], abs=0.007)
