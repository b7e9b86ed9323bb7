"""After a failure all start again, from the last checkpoint, and nothing of it is seen in the result."""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import pytest

from support.launching import (
    nothing_left,
    only_run,
    processes_in,
    read_json,
    start_tfmuster,
    tfmuster,
    wait_until,
    write,
)
from support.paths import PROGRAMS
from tfmuster.errors import LaunchError, TfmusterError, WorkerError
from tfmuster.launcher import launch
from tfmuster.launcher.supervise import worker_process as worker
from tfmuster.options.table import Control
from tfmuster.tracking.run import Run

HOST = socket.gethostname()
TASK = (
    "import json, os, signal, sys, time; index = json.loads(os.environ['TF_CONFIG'])['task']['index'];"
    "attempt = int(os.environ['TFMUSTER_RESTART'])"
)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield
    nothing_left(tmp_path)


def test_all_start_again_in_the_same_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        TASK,
        "names = ['TF_CONFIG'] + ['TFMUSTER_' + x for x in ('JOB', 'TOKEN', 'RUN_DIR', 'MAX_RESTARTS')]",
        "print(json.dumps([os.environ[name] for name in names]), flush=True)",
        "if index and not attempt:",
        "    sys.stdout.write('half a line')",
        "    sys.stdout.flush()",
        "    time.sleep(0.5)",
        "    os.kill(os.getpid(), signal.SIGKILL)",
        "time.sleep(1)",
    )
    done = tfmuster("launch", "-n", 2, "--max-restarts", 3, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "tfmuster: starting for" not in line]
    assert said[1] == f"tfmuster: worker 1 on {HOST} was ended by SIGKILL; restart 1 of 3"
    assert len(said) == 3
    run = Run(only_run(tmp_path))
    assert (run.status()["state"], run.status()["restarts"], run.error()) == ("done", 1, None)
    first, rest, line, second = run.logs()["worker 1"].splitlines()
    assert rest == "half a line"
    assert line.startswith("---- restart 1 of 3, 20")
    assert line.endswith(f"+00:00, after: worker 1 on {HOST} was ended by SIGKILL. ----")
    before, after = json.loads(first), json.loads(second)
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, False, True, True]
    assert run.info()["cluster"] == json.loads(after[0])["cluster"]


def test_too_many_failures_end_with_the_last(tmp_path: Path) -> None:
    write(tmp_path, "train.py", TASK, "if index: raise ValueError(attempt)", "time.sleep(99)")
    done = tfmuster("launch", "-n", 2, "--max-restarts", 2, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    failed = f"worker 1 on {HOST} failed with exit code 1: ValueError: "
    assert [line for line in done.stderr.splitlines() if failed in line] == [
        f"tfmuster: {failed}0; restart 1 of 2",
        f"tfmuster: {failed}1; restart 2 of 2",
        f"{failed}2",
    ]
    assert read_json(only_run(tmp_path) / "error.json")["error"] == "ValueError: 2"
    status = Run(only_run(tmp_path)).status()
    assert (status["state"], status["restarts"]) == ("failed", 2)


@pytest.mark.parametrize(
    "line", ["sys.exit(2)", "from tfmuster.errors import DataError; raise DataError('No digits.')"]
)
def test_what_a_restart_can_not_repair(tmp_path: Path, line: str) -> None:
    write(tmp_path, "train.py", TASK, line)
    done = tfmuster("launch", "-n", 1, "--max-restarts", 3, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "; restart 1" not in done.stderr
    assert Run(only_run(tmp_path)).status()["restarts"] == 0


def test_ctrl_c_never_restarts(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        TASK,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "print('ready', flush=True)",
        "if index: time.sleep(0.5); sys.exit(1)",
        "time.sleep(99)",
    )
    launcher = start_tfmuster("launch", "-n", 2, "--max-restarts", 3, "train.py", cwd=tmp_path)
    runs = tmp_path / "runs"
    wait_until(lambda: any(log.read_text() for log in runs.glob("*/logs/worker-0.log")))
    # The launcher waits for the deaf one, and would then start both again.
    wait_until(
        lambda: sum("train.py" in line and "launch" not in line for line in processes_in(tmp_path)) == 1
    )
    launcher.send_signal(signal.SIGINT)
    output, _ = launcher.communicate(timeout=5)
    assert launcher.returncode in (1, 130)
    assert "restart 1" not in output
    assert Run(only_run(tmp_path)).status()["restarts"] == 0


@pytest.mark.parametrize("wrapper", [(), ("sh", "-c", 'sleep 99 & "$@"; true', "sh", sys.executable)])
def test_a_frozen_worker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapper: tuple[str, ...]
) -> None:
    monkeypatch.setattr(worker, "FROZEN_SECONDS", 2.0)
    monkeypatch.setattr(worker, "_SUSPECT_SECONDS", 1.0)
    write(
        tmp_path,
        "train.py",
        TASK,
        "if index: print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)",
        "time.sleep(99)",
    )
    with pytest.raises(WorkerError) as failed:
        launch(*wrapper, "train.py", workers=2, quiet=True, run_dir="r")
    run = Run("r")
    pid = run.logs("worker 1")["worker 1"].strip()
    assert str(failed.value) == (
        f"worker 1 on {HOST} is frozen (process {pid} is stopped by a signal).\n"
        f"  found: Its last lines:\n  {pid}\n\nFull output: {run.path}/logs/worker-1.log"
    )
    assert run.error()["task"] == "worker 1"


def test_a_worker_that_goes_on_in_time_is_not_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FROZEN_SECONDS", 3.0)
    write(
        tmp_path,
        "train.py",
        TASK,
        "import subprocess",
        "for _ in range(2):",
        "    subprocess.Popen(['sh', '-c', f'sleep 2; kill -CONT {os.getpid()}'])",
        "    os.kill(os.getpid(), signal.SIGSTOP)",
        "    time.sleep(1.5)",
    )
    assert launch("train.py", workers=1, quiet=True).status()["state"] == "done"


def test_from_python_and_detached(tmp_path: Path) -> None:
    write(tmp_path, "train.py", TASK, "print(os.environ['TFMUSTER_START_TIMEOUT'])", "sys.exit(not attempt)")
    options = {"workers": 1, "quiet": True, "max_restarts": 1, "control": Control(start_timeout=12.5)}
    for wait in (True, False):
        run = launch("train.py", wait=wait, **options)
        assert run.wait(20)["state"] == "done"
        assert run.status()["restarts"] == 1
        assert run.logs()["worker 0"].count("12.5\n") == 2
    for count in (-1, True, 1.5):
        with pytest.raises(LaunchError, match="`max_restarts` must be a whole number of at least 0"):
            launch("train.py", max_restarts=count)  # type: ignore[arg-type]
    with pytest.raises(TfmusterError, match="`start_timeout` must be a positive number of seconds"):
        Control(start_timeout=0)


def test_who_did_not_arrive_may_arrive_the_next_time(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        TASK,
        "import tfmuster",
        "from tfmuster.rendezvous.task.meet import muster",
        "time.sleep(99 if index and not attempt else 0)",
        "muster(tfmuster.current_task())",
    )
    options = ["-n", 2, "--max-restarts", 1, "--start-timeout", 2]
    done = tfmuster("launch", *options, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[1] == (
        "tfmuster: The 2 tasks of the cluster did not come together within 2 s; restart 1 of 1"
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_bitwise_equal(tmp_path: Path) -> None:
    finals = []
    for ends in ([], ["1:killed:14", "0:raises:17", "1:exits:20"]):
        folder = tmp_path / str(len(ends))
        folder.mkdir()
        program = [PROGRAMS / "mortal.py", folder, *ends]
        done = tfmuster("launch", "--max-restarts", 3, "-n", 2, *program, cwd=folder, limit=150)
        assert done.returncode == 0, done.stdout + done.stderr
        run = Run(only_run(folder))
        assert run.status()["restarts"] == len(ends)
        for index in range(2):
            with np.load(folder / f"final-{index}.npz") as file:
                finals.append(dict(file))
        history = run.history()
        history.pop("images_per_second")
        assert {name: values.tolist() for name, values in finals[-1].items() if "arr" not in name} == history
    for name, value in finals[0].items():
        for other in finals[1:]:
            np.testing.assert_array_equal(other[name], value, err_msg=name)
