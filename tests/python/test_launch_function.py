"""Python functions on workers: what goes to them, what comes back, and what can't."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hosts import Network, why_not
from launching import environment, write
from tfmuster import launch
from tfmuster.errors import LaunchError, StrategyError, WorkerError
from tfmuster.launch.function import name_of, put_call, remove_unused
from tfmuster.runs.listing import summary

pytestmark = [pytest.mark.timeout(120)]
REASON = why_not()
OFFSET = 40


class Digits:
    def __init__(self, first: int) -> None:
        self.first = first


def placed(extra: int, digits: Digits) -> tuple[str, int, int]:
    from tfmuster import current_task

    task = current_task()
    assert task is not None
    return task.name, OFFSET + extra + digits.first, os.getpid()


def needs_luck(kind: str) -> None:
    from tfmuster import current_task

    task = current_task()
    if task is not None and task.index == 1:
        raise {"known": KeyError("no such digit"), "own": OwnError(lambda: 1)}[kind]
    import time

    time.sleep(30)


class OwnError(Exception):
    """One whose argument no process can send to another."""

    def __init__(self, what: Any) -> None:
        super().__init__(what)
        self.lock = threading.Lock()


class TestPure:
    @pytest.mark.parametrize(
        ("function", "name"),
        [(placed, "placed"), (functools.partial(placed, 1), "placed"), (lambda: 1, "function")],
    )
    def test_the_name_of_a_run(self, function: Any, name: str) -> None:
        assert name_of(function) == name

    def test_the_file_is_for_its_user_alone(self, tmp_path: Path) -> None:
        path = put_call(tmp_path / "run", placed, (1,), "default")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        remove_unused(tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_what_can_not_go_is_said_before_anything_starts(self, tmp_path: Path) -> None:
        lock = threading.Lock()
        with pytest.raises(LaunchError) as caught:
            launch(lambda: lock.locked(), run_dir=tmp_path / "run")
        assert caught.value.found == "TypeError: cannot pickle '_thread.lock' object"
        assert caught.value.fields["reason"] == "function"
        assert not (tmp_path / "run").exists()

    def test_a_strategy_that_there_is_none_of(self, tmp_path: Path) -> None:
        with pytest.raises(StrategyError, match="There is no strategy 'morrored'"):
            launch(placed, 1, strategy="morrored", run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_a_directory_with_a_run_is_left_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "run" / "logs").mkdir(parents=True)
        with pytest.raises(LaunchError, match="must be a new one"):
            launch(placed, 1, Digits(1), run_dir=tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["logs"]


@pytest.mark.cluster
class TestHere:
    def test_values_by_task(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        values = launch(placed, 1, digits := Digits(1), workers=2, quiet=True)
        assert digits.first == 1
        assert list(values) == ["worker 0", "worker 1"]
        assert [value[:2] for value in values.values()] == [("worker 0", 42), ("worker 1", 42)]
        assert os.getpid() not in {pid for *_, pid in values.values()}
        assert values.run.status()["state"] == "done"
        assert values.run.path.name.endswith("-placed")
        assert summary(values.run)["function"] == "placed"
        assert values.run.values() == values

    def test_output_and_later_values(self, tmp_path: Path) -> None:
        def told() -> int:
            print("told to the log")
            return 7

        run = launch(told, workers=1, run_dir=tmp_path / "run", wait=False)
        assert run.values() == {"worker 0": 7}
        assert run.logs()["worker 0"] == "told to the log\n"

    @pytest.mark.parametrize(("kind", "cause"), [("known", KeyError), ("own", None)])
    def test_its_exception_is_the_cause(
        self, tmp_path: Path, kind: str, cause: type[Exception] | None
    ) -> None:
        with pytest.raises(WorkerError) as caught:
            launch(needs_luck, kind, workers=2, quiet=True, run_dir=tmp_path / "run")
        assert caught.value.fields["task"] == "worker 1"
        assert "needs_luck" in caught.value.fields["traceback"]
        assert (type(caught.value.__cause__) if cause else cause) == cause

    def test_a_value_that_can_not_come_back(self, tmp_path: Path) -> None:
        with pytest.raises(WorkerError) as caught:
            launch(lambda: threading.Lock(), workers=1, quiet=True, run_dir=tmp_path / "run")
        assert "What a function on workers returns must be able to go to another process." in str(
            caught.value
        )

    def test_a_module_beside_the_program(self, tmp_path: Path) -> None:
        write(tmp_path, "layers.py", "def width():", "    return 42")
        write(tmp_path, "mine.py", "import layers", "def call():", "    return layers.width()")
        program = write(
            tmp_path,
            "program.py",
            "import mine",
            "from tfmuster import launch",
            "if __name__ == '__main__':",
            "    print('got', launch(mine.call, workers=1, quiet=True)['worker 0'])",
        )
        done = subprocess.run(
            [sys.executable, program], env=environment(), capture_output=True, text=True, check=False
        )
        assert done.stdout == "got 42\n", done.stderr

    @pytest.mark.slow
    def test_a_model_comes_back_from_the_chief(self, tmp_path: Path) -> None:
        def train(strategy: Any, size: int, units: int) -> dict[str, Any]:
            import keras
            import numpy as np

            with strategy.scope():
                model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
                model.compile(loss="mse", optimizer="sgd")
            history = model.fit(np.ones((size, 3)), np.ones((size, units)), batch_size=4, verbose=0)
            return {"models": [model], "history": history, "sum": float(model(np.ones((1, 3))).numpy().sum())}

        two_units = functools.partial(train, units=2)
        values = launch(two_units, 8, workers=2, quiet=True, run_dir=tmp_path / "run")
        import numpy as np

        chief, other = values["worker 0"], values["worker 1"]
        assert other["models"] == [None]
        assert chief["sum"] == other["sum"]
        assert float(np.asarray(chief["models"][0](np.ones((1, 3)))).sum()) == pytest.approx(chief["sum"])
        assert list(chief["history"]) == ["loss"] and len(chief["history"]["loss"]) == 1


@pytest.mark.cluster
@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_on_other_machines_that_share_nothing(network: Network) -> None:
    write(
        network.work,
        "mine.py",
        "import os",
        "OFFSET = 40",
        "def call(x):",
        "    return os.uname().nodename, OFFSET + x",
    )
    program = write(
        network.work,
        "program.py",
        "import mine",
        "from tfmuster import launch",
        "if __name__ == '__main__':",
        "    values = launch(mine.call, 2, hosts='node1,node2', quiet=True)",
        "    print('got', *values.values())",
    )
    said = network.run_here(sys.executable, program)
    assert said.strip().endswith("got ('node1', 42) ('node2', 42)")
