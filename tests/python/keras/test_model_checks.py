"""A model in bytes runs no code, reads no other file, and unpacks to no more than it may."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.launching import environment, write
from tfmuster.digits.mnist_files import read
from tfmuster.errors import DataError, ModelError
from tfmuster.models.model_checks import check_model
from tfmuster.models.saving import model_from_bytes, model_to_bytes
from tfmuster.tracking.run import Run
from tfmuster.training.checkpoint_files import unpack


def of_many_parts(*, ops: bool) -> Any:
    import keras

    @keras.saving.register_keras_serializable(package="tests")
    class Double(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * 2

    inputs = keras.Input((4,))
    x = keras.layers.Dense(3, activation="relu", kernel_regularizer="l2")(inputs)
    # Keras itself does not load operations from HDF5.
    x = Double()(keras.ops.tanh(x) + 1 if ops else x)
    x = keras.layers.Activation(keras.activations.gelu)(x)
    model = keras.Model(inputs, keras.layers.BatchNormalization()(x))
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model.compile(keras.optimizers.Adam(schedule), keras.losses.MeanSquaredError(), metrics=["mae"])
    return model


@pytest.mark.parametrize("format", [".keras", ".h5"])
def test_a_model_of_keras_s_own_classes_loads(format: str) -> None:
    model = of_many_parts(ops=format == ".keras")
    again = model_from_bytes(model_to_bytes(model, format))
    x = np.ones((2, 4), "float32")
    np.testing.assert_array_equal(again(x), model(x))


def archive(config: Any, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("config.json", json.dumps(config))
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def h5(path: Path, config: str | None = None, made: Any = None) -> bytes:
    import h5py

    with h5py.File(path, "w") as file:
        if config is not None:
            file.attrs["model_config"] = config
        if made is not None:
            made(file, h5py)
    return path.read_bytes()


def refused(raw: bytes, suffix: str, found: str) -> None:
    with pytest.raises(ModelError) as caught:
        check_model(raw, suffix)
    assert caught.value.fields["reason"] == "unsafe"
    assert found in str(caught.value.found)


LAYER = {"module": "keras.layers", "class_name": "Dense", "registered_name": None}


@pytest.mark.parametrize(
    ("described", "found"),
    [
        ({"module": "keras.layers", "class_name": "Lambda"}, "a Lambda layer"),
        ({"class_name": "__lambda__", "config": {"value": "..."}}, "a Python function"),
        ({"module": "os", "class_name": "function", "config": "system"}, "os.system"),
        ({"module": "builtins", "class_name": "function", "config": "exec"}, "builtins.exec"),
        ({"module": "keras.utils", "class_name": "function", "config": "get_file"}, "keras.utils.get_file"),
        (
            {"module": "keras.config", "class_name": "function", "config": "enable_unsafe_deserialization"},
            "unsafe",
        ),
        ({"module": "keras", "class_name": "function", "config": "utils.get_file"}, "keras.utils.get_file"),
        ({"module": "keras.layers", "class_name": "function", "config": "get"}, "keras.layers.get"),
        ({"module": "keras.models", "class_name": "function", "config": "load_model"}, "load_model"),
        ({"module": "mine", "class_name": "Own", "registered_name": "mine>Own"}, "mine.Own"),
        ({"module": "keras.src.saving.x", "class_name": "Own"}, "keras.src.saving"),
        ({"module": "kerasx.layers", "class_name": "Own"}, "kerasx.layers"),
        ({"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "/"}}, "SavedModel"),
        ({"module": "keras.layers", "class_name": "TorchModuleWrapper"}, "PyTorch"),
        ({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}, "tf.io.write_file"),
        ({"class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}}, "vocabulary"),
        ({"class_name": ["Lambda"]}, "a class named"),
    ],
)
def test_what_is_not_plain_is_refused(described: dict[str, Any], found: str, tmp_path: Path) -> None:
    config = {**LAYER, "config": {"layers": [{"deep": [described]}]}}
    refused(archive(config), ".keras", found)
    # In JSON, a letter may be written as its number.
    text = json.dumps(config).replace("Lambda", "\\u004cambda").replace("__lambda__", "__\\u006cambda__")
    refused(h5(tmp_path / "m.h5", text), ".h5", found)


@pytest.mark.parametrize(
    "described",
    [
        LAYER,
        {"module": "builtins", "class_name": "function", "config": "my_loss"},
        {"module": "keras.activations", "class_name": "function", "config": "relu"},
        {"module": "tf_keras.src.engine.functional", "class_name": "Functional"},
        {"class_name": "TFOpLambda", "config": {"function": "math.add"}},
        {"class_name": "StringLookup", "config": {"vocabulary": ["a"]}},
        {"class_name": "mine>Own"},
    ],
)
def test_what_is_plain_is_not(described: dict[str, Any]) -> None:
    check_model(archive({**LAYER, "config": [described]}), ".keras")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"x" * 64)
    link = h5(tmp_path / "a", made=lambda f, h5py: f.__setitem__("w", h5py.ExternalLink("other", "/w")))
    outside = h5(
        tmp_path / "b",
        made=lambda f, h5py: f.create_dataset("w", (8,), "f8", external=[(str(tmp_path / "other"), 0, 64)]),
    )
    for raw in (link, outside):
        refused(raw, ".h5", "another file")
        refused(archive(LAYER, **{"model.weights.h5": raw}), ".keras", "another file")


def test_weights_in_no_hdf5_file_are_refused(tmp_path: Path) -> None:
    """Keras would make lists of floats of their arrays, and then find that they are none of its own."""
    from keras.src.saving import saving_lib

    path = tmp_path / "m.keras"
    saving_lib.save_model(of_many_parts(ops=True), path, weights_format="npz")
    refused(path.read_bytes(), ".keras", "model.weights.npz")
    with zipfile.ZipFile(path) as saved:
        config = json.loads(saved.read("config.json"))
    weights = io.BytesIO()
    np.savez_compressed(weights, **{"layers/dense": np.zeros((1000, 1000))})
    with pytest.raises(ModelError) as caught:
        model_from_bytes(archive(config, **{"model.weights.npz": weights.getvalue()}))
    assert caught.value.fields["reason"] == "unsafe"


@pytest.mark.timeout(100)
def test_tf_keras_does_not_run_an_escaped_lambda(tmp_path: Path) -> None:
    """With tf-keras, an HDF5 file's Lambda runs when it is loaded, whatever the safe mode."""
    pytest.importorskip("tf_keras")
    write(
        tmp_path,
        "attack.py",
        "import h5py, tfmuster, tensorflow as tf",
        "def evil(x):",
        "    open('trace', 'w').close()",
        "    return x",
        "model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Lambda(evil)])",
        "model.save('m.h5')",
        "import os; os.unlink('trace')",
        "x = tf.keras.Input((2,))",
        "plain = tf.keras.Model(x, tf.tanh(tf.keras.layers.Dense(1)(x)) + 1)",
        "for format in ('.keras', '.h5'):",
        "    tfmuster.model_from_bytes(tfmuster.model_to_bytes(plain, format))",
        "with h5py.File('m.h5', 'r+') as file:",
        "    config = file.attrs['model_config']",
        "    assert '\"Lambda\"' in config",
        "    escaped = config.replace('\"Lambda\"', '\"\\\\u004cambda\"')",
        "    file.attrs['model_config'] = escaped.replace('__lambda__', '__\\\\u006cambda__')",
        "try:",
        "    tfmuster.model_from_bytes(open('m.h5', 'rb').read())",
        "except tfmuster.errors.ModelError as error:",
        "    print('reason', error.fields['reason'])",
        "print('trace', os.path.exists('trace'))",
    )
    done = subprocess.run(
        [sys.executable, "attack.py"],
        cwd=tmp_path,
        env=environment(TF_USE_LEGACY_KERAS="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-2:] == ["reason unsafe", "trace False"], done.stderr


def test_name_and_content_of_a_file_agree(tmp_path: Path) -> None:
    (tmp_path / "model.keras").write_bytes(model_to_bytes(of_many_parts(ops=False), ".h5"))
    with pytest.raises(ModelError) as caught:
        Run(tmp_path).model()
    assert caught.value.fields["reason"] == "not-a-model"


class TestBombs:
    BOMB = bytes(30_000_000)

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TFMUSTER_UNPACKED_GB", "0.02")

    def test_a_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("config.json", json.dumps(LAYER))
            made.writestr("assets/bomb", self.BOMB)
        sparse = h5(
            tmp_path / "m.h5", made=lambda f, _: f.create_dataset("w", (30_000_000,), "i1", chunks=True)
        )
        for raw, suffix in ((file.getvalue(), ".keras"), (sparse, ".h5")):
            assert len(raw) < 100_000
            with pytest.raises(ModelError) as caught:
                check_model(raw, suffix)
            assert caught.value.fields["reason"] == "large"
            assert "0.03 GB" in str(caught.value.found)
            assert "TFMUSTER_UNPACKED_GB" in str(caught.value)
        monkeypatch.setenv("TFMUSTER_UNPACKED_GB", "0.1")
        check_model(file.getvalue(), ".keras")

    def test_data(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.npz"
        np.savez_compressed(path, x_train=np.zeros(30_000_000, "i1"), y_train=0, x_test=0, y_test=0)
        with pytest.raises(DataError) as caught:
            read(path)
        assert caught.value.fields["reason"] == "large"

    def test_a_checkpoint(self) -> None:
        file = io.BytesIO()
        np.savez_compressed(file, about=0, value_0=np.zeros(30_000_000, "i1"))
        with pytest.raises(ValueError, match=r"0\.03 GB"):
            unpack(file.getvalue())
