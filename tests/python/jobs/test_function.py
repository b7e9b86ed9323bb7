"""Python functions on workers: their values, their exceptions, and what they print."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from support.functions import Digits, placed
from support.launching import environment, write
from tfmuster import launch
from tfmuster.errors import LaunchError, WorkerError
from tfmuster.launcher import function
from tfmuster.tracking.show.summary import summary

pytestmark = pytest.mark.timeout(120)


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

    def test_launches_in_one_second_and_folder_get_their_own_arguments(self, tmp_path: Path) -> None:
        script = write(
            tmp_path,
            "session.py",
            "import sys, tfmuster",
            "asked = float(sys.argv[1])",
            "values = tfmuster.launch(lambda x: x, asked, workers=1, quiet=True, name='sweep')",
            "print(asked, values['worker 0'])",
        )
        rates = [0.01, 0.02, 0.04, 0.08, 0.1, 0.2]
        sessions = [
            subprocess.Popen(
                [sys.executable, script, str(rate)],
                cwd=tmp_path,
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for rate in rates
        ]
        said = [session.communicate(timeout=100)[0] for session in sessions]
        assert said == [f"{rate} {rate}\n" for rate in rates]
        runs = list(tmp_path.glob("runs/*"))
        assert len(runs) == len(rates)
        # What the function was given is not kept longer than the run.
        assert not list(tmp_path.glob("runs/*/call/call.pkl"))
        assert len(list(tmp_path.glob("runs/*/call/worker-0.pkl"))) == len(rates)

    def test_another_function_is_not_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put_call = function.put_call

        def overwritten(folder: Path, *given: Any, plain: bool) -> tuple[Path, str]:
            path, digest = put_call(folder, *given, plain=plain)
            put_call(folder, placed, (2, None), "default")
            return path, digest

        monkeypatch.setattr(function, "put_call", overwritten)
        with pytest.raises(WorkerError, match="The function to run must be the one that was launched"):
            launch(placed, 1, None, workers=1, quiet=True, run_dir=tmp_path / "run")

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
        assert "The value that a function on workers returns must be picklable." in str(caught.value)

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

    def test_only_the_function_imports_from_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        write(tmp_path, "orjson.py", "raise SystemExit('imported')")
        write(tmp_path, "job.py", "value = 7")

        def import_here() -> int:
            import job

            return int(job.value)

        assert launch(import_here, workers=1, quiet=True) == {"worker 0": 7}

    def test_a_directory_with_a_run_is_left_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "run" / "logs").mkdir(parents=True)
        with pytest.raises(LaunchError, match="must be new"):
            launch(placed, 1, Digits(1), run_dir=tmp_path / "run")
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["logs"]
