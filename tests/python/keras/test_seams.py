"""The register of seams fits the installed Keras and TensorFlow, and nothing is replaced if it does not."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import pytest
import tensorflow as tf

from tfmuster import keras_compat
from tfmuster.errors import DependencyError, StrategyError, TfmusterWarning
from tfmuster.keras_compat import calls, seams
from tfmuster.keras_compat.process import PROCESS
from tfmuster.system import register
from tfmuster.system.register import Seam, check, rows

ROWS = [row for row in rows() if row.packages <= {"keras", "tensorflow"}]


def hide(monkeypatch: pytest.MonkeyPatch, row: Seam) -> None:
    """Give a row a name that no release has."""
    monkeypatch.setattr(row, "path", f"{row.path}_of_another_release")


def test_all_rows_fit() -> None:
    assert {row: row.misfit() for row in ROWS if row.misfit()} == {}
    assert check(["keras", "tensorflow"]) == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.essential], ids=str)
def test_without_an_essential_name_nothing_is_replaced(row: Seam, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if no other test of this process had installed it.
    monkeypatch.setattr(PROCESS, "installed", set())
    monkeypatch.setattr(register, "_replaced", [])
    hide(monkeypatch, row)
    with pytest.raises(DependencyError) as refused:
        keras_compat.install()
    assert str(refused.value.found).startswith(f"{row}: ")
    assert register._replaced == []
    assert PROCESS.installed == set()


def test_without_an_optional_name_its_feature_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "features_off", [])
    optional = [row for row in ROWS if not row.essential]
    assert optional
    for row in optional:
        hide(monkeypatch, row)
    with pytest.warns(TfmusterWarning) as told:
        keras_compat.check_releases("keras", "tensorflow")
    assert len(told) == len(optional)
    assert all(str(row) in str(note.message) for row, note in zip(optional, told, strict=True))


def wrappers(method: Any) -> list[Any]:
    """Return the functions around a method that tfmuster has put there."""
    found = [method]
    while (inner := getattr(found[-1], "__wrapped__", None)) is not None:
        found.append(inner)
    # `functools.wraps` copies the name of the module.
    return [each for each in found if "/tfmuster/" in each.__code__.co_filename]


def test_each_method_has_one_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls._PARTS["keras"], "scales", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keras_compat.install()
    calls.refuse_alone(lambda: 1)
    calls.scale_batches("keras")
    for name in ("fit", "evaluate", "predict", "train_on_batch", "compile"):
        assert len(wrappers(getattr(keras.Model, name))) == 1, name
    assert len(wrappers(seams.APPLY.get())) == 1


def test_a_model_trains_and_predicts_as_before() -> None:
    keras_compat.install()
    calls.refuse_alone(lambda: 1)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = tf.ones((4, 2))
    assert len(model.fit(x, x[:, :1], verbose=0).history["loss"]) == 1
    assert model.predict(x, verbose=0).shape == (4, 1)
    with pytest.raises(TypeError, match="batchsize"):
        model.fit(x, batchsize=4)


def test_one_of_several_workers_does_not_train_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    monkeypatch.setattr(calls._PARTS["keras"], "guard", None)
    calls.refuse_alone(lambda: 2)
    for call in (model.fit, model.train_on_batch):
        with pytest.raises(StrategyError, match="must train one model together"):
            call(tf.ones((4, 2)), tf.ones((4, 1)))
