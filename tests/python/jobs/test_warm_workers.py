"""Warm workers: processes that wait between the calls of ``launch(function)``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import tfmuster
from support.launching import environment, nothing_left, wait_until, write
from support.spares import spares_in
from tfmuster.errors import LaunchError
from tfmuster.launcher.supervise.spares import WarmWorkers

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    tfmuster.workers(0)
    nothing_left(tmp_path, 5)


def look(given: int) -> list[Any]:
    """What a function sees on a worker."""
    import random

    kept = getattr(sys, "kept", None)
    sys.kept = given  # type: ignore[attr-defined]
    place = [os.environ["TFMUSTER_RUN_DIR"], os.getcwd(), os.environ.get("OF_THE_CALL")]
    return [given, os.getpid(), "tensorflow" in sys.modules, kept, random.random(), *place]


def ready(folder: Path, number: int) -> set[int]:
    wait_until(lambda: len(spares_in(folder)) == number, 60)
    return {spare.pid for spare in spares_in(folder)}


def call(given: int, **more: Any) -> list[list[Any]]:
    values = tfmuster.launch(look, given, quiet=True, seed=5, **more)
    assert [value[0] for value in values.values()] == [given] * len(values)
    return [value[1:] for value in values.values()]


def test_each_call_gets_processes_of_its_own_that_were_ready(tmp_path: Path) -> None:
    cold = call(1)
    assert [warm for _, warm, *_ in cold] == [False, False]
    with tfmuster.workers(3) as kept:
        before = ready(tmp_path, 3)
        assert repr(kept) == "<3 warm workers>"
        first = call(2)
        assert {pid for pid, *_ in first} == before
        others = ready(tmp_path, 3)
        assert not others & before
        second = call(3, workers=2)
        taken = {pid for pid, *_ in second}
        assert len(taken) == 2 and taken < others
        # They know nothing of the call before, and draw the numbers of the seed.
        for _, warm, earlier, drawn, run_dir, folder, _ in (*first, *second):
            assert warm and earlier is None and drawn == cold[0][3] and folder == str(tmp_path)
            assert Path(run_dir).parent == tmp_path / "runs"
        assert len({place[4] for place in (*cold, *first, *second)}) == 3
    assert [warm for _, warm, *_ in call(4)] == [False, False]


def test_another_environment_or_folder_gets_new_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tfmuster.workers(1)
    ready(tmp_path, 1)
    [[_, warm, *_, seen]] = call(1, control=tfmuster.Control(env={"OF_THE_CALL": "yes"}))
    assert not warm and seen == "yes"
    # Those that wait then are like the last call's.
    ready(tmp_path, 1)
    [[_, warm, *_, seen]] = call(1, control=tfmuster.Control(env={"OF_THE_CALL": "yes"}))
    assert warm and seen == "yes"
    ready(tmp_path, 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    [[_, warm, *_, folder, _]] = call(1)
    assert not warm and folder == str(tmp_path / "elsewhere")


def test_a_failure_leaves_the_others_ready(tmp_path: Path) -> None:
    tfmuster.workers(2)
    ready(tmp_path, 2)

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(tfmuster.TfmusterError, match="ValueError: no"):
        tfmuster.launch(fail, quiet=True)
    ready(tmp_path, 2)
    assert all(warm for _, warm, *_ in call(1))


def test_they_end_when_nobody_calls(tmp_path: Path) -> None:
    kept = tfmuster.workers(1, idle=12)
    ready(tmp_path, 1)
    wait_until(lambda: not spares_in(tmp_path), 30)
    assert repr(kept) == "<1 warm workers, of which 0 wait>"
    assert len(call(1)) == 1
    ready(tmp_path, 1)


def test_another_number_replaces_them(tmp_path: Path) -> None:
    tfmuster.workers(2)
    first = ready(tmp_path, 2)
    tfmuster.workers(1)
    wait_until(lambda: not first & {process.pid for process in psutil.process_iter()})
    assert isinstance(tfmuster.workers(0), WarmWorkers)
    wait_until(lambda: not spares_in(tmp_path))


@pytest.mark.parametrize("how", [None, signal.SIGTERM, signal.SIGKILL])
def test_they_end_with_the_session(tmp_path: Path, how: signal.Signals | None) -> None:
    """SIGTERM ends a Python without its exit handlers."""
    write(
        tmp_path,
        "session.py",
        "import sys, time, tfmuster",
        "tfmuster.workers(2)",
        "print('started', flush=True)",
        "sys.stdin.read()",
    )
    session = subprocess.Popen(
        [sys.executable, "session.py"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert session.stdin is not None and session.stdout is not None
    assert session.stdout.readline() == b"started\n"
    time.sleep(0.5)
    if how is None:
        session.stdin.close()
    else:
        session.send_signal(how)
    session.wait(timeout=10)
    session.stdout.close()
    nothing_left(tmp_path, 15)


@pytest.mark.parametrize(
    ("number", "idle"), [(-1, 300), (1.5, 300), (True, 300), ("2", 300), (2, 0), (2, "5")]
)
def test_bad_numbers_are_refused(number: Any, idle: Any) -> None:
    with pytest.raises(LaunchError, match="Warm workers are a whole number of processes") as caught:
        tfmuster.workers(number, idle=idle)
    assert caught.value.fields["reason"] == "warm-workers"
