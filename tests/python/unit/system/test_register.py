"""The rows of the register of seams, with a package of the test's own."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from tfmuster.errors import DependencyError
from tfmuster.system import register
from tfmuster.system.register import Private, Seam, check, require, restore


class Model:
    def __init__(self) -> None:
        self._strategy = "mirrored"

    def fit(self, x: Any, batch_size: int = 32) -> int:
        return batch_size


class Small(Model):
    pass


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with a class and a function, under the name of Keras, and an empty register."""
    module = types.ModuleType("keras.src.pretended")
    module.Model, module.Small, module.total = Model, Small, lambda values: sum(values)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    # Without the entries, Python would look for them, and import Keras.
    for missing in ("keras.src.missing", "keras.src.backend.jax.pretended", "jax._src.pretended"):
        monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(register, "_register", [])
    monkeypatch.setattr(register, "_replaced", [])
    yield module
    restore()


def seam(path: str, **more: Any) -> Seam:
    return Seam(f"keras.src.pretended:{path}", "for the test", **more)


def private(path: str, **more: Any) -> Private:
    return Private(f"keras.src.pretended:{path}", "for the test", **more)


def test_rows_that_fit() -> None:
    seam("total", takes=("values",))
    seam("Model.fit", takes=("x", "batch_size"))
    private("Model._strategy")
    private("Small._strategy")
    assert check(["keras"]) == []


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (lambda: seam("mean"), "it is missing"),
        (lambda: seam("Model.evaluate"), "it is missing"),
        (lambda: Seam("keras.src.missing:total", "for the test"), "it is missing"),
        (lambda: seam("total", takes=("values", "weights", "axis")), "it takes no weights, axis"),
        (lambda: private("Model._devices"), "it is missing"),
        (lambda: private("Other._devices"), "its class is missing"),
        (lambda: private("_total"), "it is missing"),
        (lambda: private("Model.fit", takes=("y",)), "it takes no y"),
    ],
)
def test_an_essential_row_that_does_not_fit_is_refused_by_name(row: Any, why: str) -> None:
    seam("total")
    essential = row()
    with pytest.raises(DependencyError) as refused:
        check(["keras"])
    assert refused.value.found == f"{essential}: {why}"
    assert refused.value.fields == {"package": "keras", "reason": "seams"}
    assert refused.value.fix == "install a tested release: pip install 'keras>=3.10,<3.16'"


def test_all_rows_that_do_not_fit_are_in_one_error() -> None:
    seam("first")
    seam("second")
    with pytest.raises(DependencyError, match=r":first: it is missing; .*:second: it is missing"):
        check(["keras"])


def test_an_optional_row_that_does_not_fit_is_returned() -> None:
    row = seam("mean", essential=False)
    assert check(["keras"]) == [row]
    assert not row.fits
    with pytest.raises(DependencyError, match=r"pretended:mean: it is missing"):
        require([row])


def test_a_row_is_checked_with_its_package_and_its_backend() -> None:
    Seam("jax._src.pretended:state", "for the test")
    Seam("keras.src.backend.jax.pretended:Trainer", "for the test")
    seam("mean", backend="jax")
    assert check(["keras", "tensorflow"]) == []
    with pytest.raises(DependencyError) as refused:
        check(["keras", "jax"])
    assert str(refused.value.found).count("it is missing") == 3
    assert "'jax>=0.6,<0.8' 'keras>=3.10,<3.16'" in str(refused.value.fix)


def test_replacements_are_undone_the_last_first(package: Any) -> None:
    stock, total = Model.fit, package.total
    fit, sum_up = seam("Model.fit"), seam("total")
    assert not fit.replaced
    fit.replace(lambda self, x: 1)
    fit.replace(lambda self, x: 2)
    sum_up.replace_everywhere(lambda values: 0)
    seam("Small").add("fit", lambda self, x: 3)
    assert fit.replaced
    assert (Model().fit(0), Small().fit(0), package.total([1])) == (2, 3, 0)
    restore()
    assert not fit.replaced
    assert (Model.fit, package.total) == (stock, total)
    assert "fit" not in vars(Small)


def test_an_attribute_of_an_object() -> None:
    row, model = private("Model._strategy"), Model()
    assert row.of(model) == "mirrored"
    row.set(model, None)
    assert row.has(model)
    assert row.of(model) is None
    row.unset(model)
    assert not row.has(model)
    assert row.of(model, "default") == "default"
