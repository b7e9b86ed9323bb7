"""Models as files and bytes: whole or not at all, by the chief only, loaded by plain Keras in safe mode."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from tfmuster.errors import ModelError
from tfmuster.models import saving as artifacts
from tfmuster.models.saving import model_from_bytes, model_to_bytes, save_model
from tfmuster.net.ports import free_ports

DIGITS = np.random.default_rng(0).integers(0, 256, (4, 28, 28), np.uint8)


@pytest.fixture(scope="module")
def model():
    from tfmuster.digits.models import mnist_model

    made = mnist_model("mlp", seed=0)
    made.train_on_batch(DIGITS, np.eye(10)[[1, 2, 3, 4]])
    return made


def predictions(model):
    return np.asarray(model(DIGITS))


def served(folder):
    """What a SavedModel gives when it is loaded without Keras."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    return loaded.serve(tf.constant(DIGITS)).numpy()


@pytest.mark.parametrize("name", ["m.keras", "m.h5", "m.hdf5", "deep/er/m.keras"])
def test_plain_keras_loads_what_is_saved(model, tmp_path, name):
    import tensorflow as tf

    path = save_model(model, tmp_path / name)
    assert path == tmp_path / name
    loaded = tf.keras.models.load_model(path)
    np.testing.assert_array_equal(predictions(loaded), predictions(model))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_saved_model_folder(model, tmp_path, capfd):
    path = save_model(model, tmp_path / "served")
    save_model(model, path)
    np.testing.assert_allclose(served(path), predictions(model), atol=1e-6)
    assert [file.name for file in tmp_path.iterdir()] == ["served"]
    assert capfd.readouterr().out == ""


def test_relative_paths_come_back_absolute(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert save_model(model, "m.keras") == tmp_path / "m.keras"


def test_a_failed_save_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "m.keras"
    path.write_bytes(b"old")

    def half(model, part):
        part.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(artifacts, "_write", half)
    with pytest.raises(ModelError, match="No space left") as caught:
        save_model(model, path)
    assert caught.value.fields == {"reason": "path", "path": str(path)}
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["m.keras"]


@pytest.mark.parametrize("name", ["m.txt", "m.pb", "m.keras.bak"])
def test_unknown_suffix_is_refused(model, tmp_path, name):
    with pytest.raises(ModelError, match="SavedModel folder") as caught:
        save_model(model, tmp_path / name)
    assert caught.value.fields["reason"] == "format"


def test_a_folder_of_something_else_is_kept(model, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1").write_text("precious")
    with pytest.raises(ModelError, match="something else"):
        save_model(model, tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter1").read_text() == "precious"


@pytest.mark.parametrize("format", [".keras", ".h5"])
def test_bytes_and_base64_round_trip(model, format):
    data = model_to_bytes(model, format)
    text = base64.encodebytes(data).decode()
    assert "\n" in text
    for given in (data, bytearray(data), memoryview(data), text):
        np.testing.assert_array_equal(predictions(model_from_bytes(given)), predictions(model))


def test_loaded_model_is_compiled(model):
    loaded = model_from_bytes(model_to_bytes(model))
    assert loaded.evaluate(DIGITS, np.eye(10)[[1, 2, 3, 4]], verbose=0)[1] >= 0


def with_code():
    import tensorflow as tf

    return tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Lambda(lambda x: x + 1)])


@pytest.mark.parametrize("format", [".keras", ".h5"])
def test_a_model_that_carries_code_is_refused(format):
    with pytest.raises(ModelError) as caught:
        model_from_bytes(model_to_bytes(with_code(), format))
    assert caught.value.fields["reason"] == "unsafe"
    assert "trust" in caught.value.fix


@pytest.mark.parametrize(
    "data,reason",
    [
        ("", "not-a-model"),
        (b"", "not-a-model"),
        ("m.keras", "not-base64"),
        ("ä", "not-base64"),
        (b"<html>", "not-a-model"),
        (b"PK\x03\x04 and then nothing", "damaged"),
        (b"\x89HDF\r\n\x1a\n and then nothing", "damaged"),
    ],
)
def test_what_is_not_a_model(data, reason):
    with pytest.raises(ModelError) as caught:
        model_from_bytes(data)
    assert caught.value.fields["reason"] == reason


@pytest.mark.parametrize("format", [".keras", ".h5"])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_truncated_bytes(model, format, share):
    data = model_to_bytes(model, format)
    with pytest.raises(ModelError) as caught:
        model_from_bytes(data[: int(len(data) * share)])
    assert caught.value.fields["reason"] == "damaged"


def test_unknown_format_of_bytes(model):
    with pytest.raises(ModelError) as caught:
        model_to_bytes(model, ".pb")
    assert caught.value.fields["reason"] == "format"


WORKER = """
import json, sys
from pathlib import Path
import numpy as np
import tensorflow as tf
from tfmuster.models.saving import model_to_bytes, save_model
from tfmuster.digits.models import mnist_model

strategy = tf.distribute.MultiWorkerMirroredStrategy()
folder = Path(sys.argv[1])
with strategy.scope():
    models = [mnist_model("cnn", optimizer="adam", seed=0), tf.keras.Sequential([
        tf.keras.Input((28, 28), dtype="uint8"), tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.BatchNormalization(), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])]
    models[0].optimizer.build(models[0].trainable_variables)
saved = [str(save_model(model, folder / f"{number}{suffix}"))
         for number, model in enumerate(models) for suffix in (".keras", ".h5", "")]
digits = np.load(folder / "digits.npy")
print(json.dumps({"saved": saved, "bytes": len(model_to_bytes(models[0])),
                  "predictions": [np.asarray(model(digits)).tolist() for model in models]}))
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_only_the_chief_of_two_workers_saves(tmp_path):
    import tensorflow as tf

    np.save(tmp_path / "digits.npy", DIGITS)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    workers = []
    for index in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        python_path = str(Path(artifacts.__file__).parents[2])
        environment = {**os.environ, "TF_CONFIG": json.dumps(task), "PYTHONPATH": python_path}
        command = [sys.executable, "-c", WORKER, str(tmp_path)]
        workers.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        answers = [worker.communicate(timeout=100) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], answers
    chief, other = (json.loads(out.splitlines()[-1]) for out, _ in answers)
    assert set(other["saved"]) == {"None"}
    assert chief["bytes"] > 0 and other["bytes"] > 0
    names = {f"{number}{suffix}" for number in (0, 1) for suffix in (".keras", ".h5", "")}
    assert {file.name for file in tmp_path.iterdir()} == {*names, "digits.npy"}
    for number, expected in enumerate(chief["predictions"]):
        for suffix in (".keras", ".h5"):
            loaded = tf.keras.models.load_model(tmp_path / f"{number}{suffix}")
            np.testing.assert_allclose(predictions(loaded), expected, atol=1e-5)
        np.testing.assert_allclose(served(tmp_path / f"{number}"), expected, atol=1e-5)


def test_every_worker_gets_the_bytes_of_the_model() -> None:
    done = succeeded(run_job("bytes_of_model.py", 2))
    digests = [each.stdout.split() for each in done]
    assert len(digests[0]) == 2
    assert digests[0] == digests[1]
    assert digests[0][0] == digests[0][1]


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_every_worker_reads_what_all_have_saved(tmp_path: Path) -> None:
    done = succeeded(run_job("read_what_was_saved.py", 2, tmp_path))
    chief, other = (json.loads(each.stdout.splitlines()[-1]) for each in done)
    assert other["found"] == chief["found"]
    found = chief["found"]
    same = ["deep/m.keras", "m.h5", "unzipped", "many.weights.json", "best.weights.h5", "model.weights.h5"]
    for name in [*same, "edited", "served"]:
        np.testing.assert_allclose(found[name], found["model"], atol=2e-5, err_msg=name)
    assert found["newer"] == found["other"] != found["model"]
    assert {"m.keras", "m.h5", "best.weights.h5", "edited.weights.h5", "saved_model.pb"} <= {*chief["there"]}
    assert other["there"] == []
