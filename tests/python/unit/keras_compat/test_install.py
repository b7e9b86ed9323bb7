"""Which versions of Keras are repaired."""

from __future__ import annotations

import sys
import types
import warnings

import pytest

from tfmuster import keras_compat
from tfmuster.errors import TfmusterWarning
from tfmuster.keras_compat.process import PROCESS


def pretend_keras(monkeypatch: pytest.MonkeyPatch, version: str, backend: str = "tensorflow") -> None:
    """A Keras of which nothing can be imported."""
    config = types.SimpleNamespace(backend=lambda: backend)
    monkeypatch.setitem(sys.modules, "keras", types.SimpleNamespace(__version__=version, config=config))
    monkeypatch.setattr(PROCESS, "installed", set())


def test_a_keras_that_is_too_old_is_named_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_keras(monkeypatch, "3.9.2")
    with pytest.warns(TfmusterWarning, match=r"Keras 3\.9\.2 is too old .* pip install 'keras>=3\.10'"):
        keras_compat.install()
    assert PROCESS.installed == set()


@pytest.mark.parametrize(("version", "backend"), [("2.15.0", "tensorflow"), ("3.15.1", "jax")])
def test_keras_2_and_other_backends_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, version: str, backend: str
) -> None:
    pretend_keras(monkeypatch, version, backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keras_compat.install()
    assert PROCESS.installed == set()
