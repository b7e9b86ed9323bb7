"""An R function and its Python twin have the same argument names, in the same order."""

from __future__ import annotations

import inspect
import subprocess

import pytest

import tfmuster
from tfmuster.cluster.spec import Cluster
from tfmuster.options.places import PLACES
from tfmuster.options.table import Control

#: Python's functions that R has as `run_list()`, `run_open()`, `run_view()`, `tfmuster_doctor()` and
#: `tfmuster_test()`, with arguments of R's own, and a learning rate that R passes to `train_mnist()`.
DIFFERENT = {"runs", "find_run", "write_report", "doctor", "selftest", "scaled_learning_rate"}
TWINS = {
    name: getattr(tfmuster, name) for name in tfmuster.__all__ if name[0].islower() and name not in DIFFERENT
} | {"cluster_spec": Cluster}
#: Names that other packages of R have.
IN_R = {
    "checkpoint_callback": "callback_checkpoint",
    "save_model": "model_to_file",
    "tensorboard_callback": "callback_tensorboard",
}
#: What a language has by itself: variadic arguments, the environment that only Python can be handed, what
#: only R's functions on workers need, and the expression that R takes where Python has a context manager.
OF_ONE_LANGUAGE = {"...", "args", "options", "environ", "globals", "packages", "expr"}


@pytest.fixture(scope="module")
def formals() -> dict[str, list[str]]:
    code = 'for (n in getNamespaceExports("tfmuster")) cat(n, names(formals(get(n))), "\\n")'
    done = subprocess.run(
        ["Rscript", "-e", f"library(tfmuster); {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}


def test_places_and_control_have_the_same_arguments(formals: dict[str, list[str]]) -> None:
    assert {f"on_{place.backend}" for place in PLACES} == {name for name in formals if name.startswith("on_")}
    for name, twin in (("launch_control", Control), *((f"on_{place.backend}", place) for place in PLACES)):
        # R passes the options of a backend in `...`.
        python = [
            argument for argument in inspect.signature(twin).parameters if argument != "backend_options"
        ]
        assert [argument for argument in formals[name] if argument not in OF_ONE_LANGUAGE] == python


@pytest.mark.parametrize("name", sorted(TWINS))
def test_same_arguments(formals: dict[str, list[str]], name: str) -> None:
    python = list(inspect.signature(TWINS[name]).parameters)
    # R takes the workers by position.
    python.sort(key=lambda argument: (name, argument) != ("cluster_spec", "worker"))
    assert [a for a in formals[IN_R.get(name, name)] if a not in OF_ONE_LANGUAGE] == [
        a for a in python if a not in OF_ONE_LANGUAGE
    ]
