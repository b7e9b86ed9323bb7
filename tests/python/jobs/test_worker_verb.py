"""``tfmuster worker`` with a TF_CONFIG: it ends as the program does, whatever the engine does to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.jobs import free_addresses
from support.launching import TFMUSTER, environment, nothing_left, tfmuster, wait_until, write
from support.r import NEEDS_R


def place(index: int = 0, workers: int = 1) -> str:
    return json.dumps(
        {"cluster": {"worker": free_addresses(workers)}, "task": {"type": "worker", "index": index}}
    )


def start(folder: Path, *program: str) -> subprocess.Popen[str]:
    """The verb with a program that writes the file ``begun`` in time."""
    process = subprocess.Popen(
        [*TFMUSTER, "worker", *program],
        cwd=folder,
        env=environment(TF_CONFIG=place()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_until((folder / "begun").exists)
    return process


def test_the_program_gets_the_place_its_arguments_and_the_job(tmp_path: Path) -> None:
    lines = (
        "import json, os, sys",
        "names = ('TF_CONFIG', 'TFMUSTER_START_TIMEOUT', 'TFMUSTER_KERAS_COMPAT')",
        "names += ('PYTHONHASHSEED', 'no_proxy')",
        "print(json.dumps([sys.argv[1:], *map(os.environ.get, names)]))",
        "assert 'TFMUSTER_JOB' in os.environ and sys.stdin.read() == ''",
    )
    write(tmp_path, "train.py", *lines)
    told = place()
    options = ("--start-timeout", "7", "--no-keras-compat")
    done = tfmuster("worker", *options, "--", "train.py", "--quiet", "a b", cwd=tmp_path, TF_CONFIG=told)
    assert done.returncode == 0, done.stderr
    seen, config, *rest = json.loads(done.stdout)
    assert seen == ["--quiet", "a b"]
    assert json.loads(config) == json.loads(told)
    assert rest == ["7.0", "0", "0", "127.0.0.1"]
    assert "worker 0 at 127.0.0.1:" in done.stderr


@NEEDS_R
def test_an_r_script_too(tmp_path: Path) -> None:
    write(tmp_path, "train.R", "cat(nchar(Sys.getenv('TF_CONFIG')) > 0, Sys.getenv('RETICULATE_PYTHON'))")
    done = tfmuster("worker", "--", "train.R", cwd=tmp_path, TF_CONFIG=place())
    assert done.stdout.startswith("TRUE /"), done.stderr


@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", -9)])
def test_it_ends_as_the_program_does(tmp_path: Path, end: str, code: int) -> None:
    write(tmp_path, "train.py", "import os, sys", end)
    assert tfmuster("worker", "train.py", cwd=tmp_path, TF_CONFIG=place()).returncode == code


def test_who_is_not_told_its_place_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "")
    done = tfmuster("worker", "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "must be told which task" in done.stderr
    assert tfmuster("worker", "nope.py", cwd=tmp_path, TF_CONFIG=place()).returncode == 2
    assert tfmuster("worker", "train.py", cwd=tmp_path, TF_CONFIG="{").returncode == 2


def test_signals_reach_the_program_which_may_end_well(tmp_path: Path) -> None:
    lines = (
        "import os, signal, sys, time",
        "signal.signal(signal.SIGUSR1, lambda *_: print('usr1', flush=True))",
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))",
        "open('begun', 'w').close()",
        "while True: time.sleep(0.1)",
    )
    write(tmp_path, "train.py", *lines)
    process = start(tmp_path, "train.py")
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    process.terminate()
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 5
    assert "usr1" in said


def test_who_survives_sigterm_is_killed_with_all_it_has_started(tmp_path: Path) -> None:
    lines = (
        "import signal, subprocess, time",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "subprocess.Popen(['sleep', '99'], start_new_session=True)",
        "open('begun', 'w').close()",
        "time.sleep(99)",
    )
    write(tmp_path, "train.py", *lines)
    process = start(tmp_path, "train.py")
    begun = time.monotonic()
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    assert in_time(begun, 8)
    nothing_left(tmp_path)


def test_killed_itself_it_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time; open('begun', 'w').close(); time.sleep(99)")
    process = start(tmp_path, "train.py")
    process.kill()
    process.communicate(timeout=20)
    nothing_left(tmp_path, seconds=10)


def test_a_program_that_has_failed_but_does_not_end_is_ended(tmp_path: Path) -> None:
    # As TensorFlow, whose threads wait for the peers.
    lines = (
        "import threading, time",
        "open('begun', 'w').close()",
        "threading.Thread(target=time.sleep, args=(99,)).start()",
        "raise ValueError('no such column')",
    )
    write(tmp_path, "train.py", *lines)
    process = start(tmp_path, "train.py")
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ValueError: no such column" in said
    nothing_left(tmp_path)


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "raise SystemExit(1)")
    (tmp_path / "tmp").mkdir()
    tfmuster("worker", "train.py", cwd=tmp_path, TF_CONFIG=place(), TMPDIR=str(tmp_path / "tmp"))
    assert os.listdir(tmp_path / "tmp") == []
