"""Functions on their way to workers: what can't go is said before anything starts."""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tfmuster
from support.functions import placed
from tfmuster import launch
from tfmuster.errors import LaunchError, StrategyError
from tfmuster.launcher.function import any_values, name_of, put_call
from tfmuster.options.places import Local, Mpi, Place, Slurm, Spark, Ssh
from tfmuster.options.table import Control
from tfmuster.tracking.lifecycle.beginning import claim_call


class TestPure:
    @pytest.mark.parametrize(
        ("function", "name"),
        [(placed, "placed"), (functools.partial(placed, 1), "placed"), (lambda: 1, "function")],
    )
    def test_the_name_of_a_run(self, function: Any, name: str) -> None:
        assert name_of(function) == name

    def test_the_file_is_for_its_user_alone(self, tmp_path: Path) -> None:
        claim = claim_call("placed", tmp_path / "run", any_values=True)
        path, digest = put_call(claim.path / "call", placed, (1, None), "default")
        assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        claim.release()
        assert not (tmp_path / "run").exists()

    def test_what_can_not_go_is_said_before_anything_starts(self, tmp_path: Path) -> None:
        lock = threading.Lock()
        with pytest.raises(LaunchError) as caught:
            launch(lambda: lock.locked(), run_dir=tmp_path / "run")
        assert caught.value.found == "TypeError: cannot pickle '_thread.lock' object"
        assert caught.value.fields["reason"] == "function"
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("on", "free"),
        [
            (Local(), True),
            (Ssh("localhost:2"), True),
            (Ssh("node1,node2"), False),
            (Ssh("node1,node2", trust_hosts=True), True),
            (Slurm(), False),
            (Spark(), False),
            (Mpi("localhost"), False),
        ],
    )
    def test_who_may_return_anything(self, on: Place, free: bool) -> None:
        assert any_values(on) is free

    def test_a_strategy_that_there_is_none_of(self, tmp_path: Path) -> None:
        with pytest.raises(StrategyError, match="There is no strategy 'morrored'"):
            launch(placed, 1, control=Control(strategy="morrored"), run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("function", "args", "found"),
        [
            (lambda x: x, (), "no value for `x`"),
            (lambda strategy, n, rows, *more: n, (1,), "no value for `rows`"),
            (lambda *, size: size, (1,), "too many positional arguments"),
            (functools.partial(placed, digits=1), (), "no value for `extra`"),
            (lambda strategy: 1, (5,), "too many positional arguments"),
        ],
    )
    def test_a_function_that_can_not_be_called_with_its_arguments(
        self, tmp_path: Path, function: Any, args: tuple[Any, ...], found: str
    ) -> None:
        with pytest.raises(LaunchError) as caught:
            launch(function, *args, run_dir=tmp_path / "run")
        assert found in str(caught.value.found)
        assert caught.value.fields["reason"] == "argument"
        assert not (tmp_path / "run").exists()

    def test_functions_that_can_be_called(self, tmp_path: Path) -> None:
        def with_all(strategy: Any, first: int, *rest: int, keyword: int = 1, **more: int) -> None:
            """Takes what it gets."""

        for function, args in ((with_all, (1, 2)), (print, (1,)), (lambda *, strategy: 1, ()), (max, (1, 2))):
            assert put_call(tmp_path, function, args, "default")


def test_a_function_that_launches_can_be_sent() -> None:
    def launches(rate: float) -> Any:
        return tfmuster.launch("train.py", "--rate", rate), tfmuster.runs()

    assert pickle.loads(cloudpickle.dumps(launches)).__name__ == "launches"
    for function in (tfmuster.launch, tfmuster.runs):
        assert inspect.isfunction(function) and pickle.loads(cloudpickle.dumps(function)) is function
