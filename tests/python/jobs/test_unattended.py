"""A job continues when nobody reads its output, and when the terminal that started it is closed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.launching import TFMUSTER, environment, nothing_left, only_run, tfmuster, wait_until, write
from tfmuster.tracking.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

LAUNCH = " ".join([*TFMUSTER, "launch", "-n", "2", "train.py"])
EACH = LAUNCH.replace("train.py", "--all-output train.py")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path):
    yield
    nothing_left(tmp_path)


def in_shell(folder: Path, command: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment(**env), capture_output=True, timeout=60
    )


@pytest.mark.parametrize(
    "command", [f"{LAUNCH} | head -n 1", f"{LAUNCH} 2>&1 | true", f"{LAUNCH} >&-", f"{LAUNCH} >&- 2>&- <&-"]
)
def test_a_job_ends_well_without_a_reader(tmp_path: Path, command: str) -> None:
    write(
        tmp_path,
        "train.py",
        "import os, time",
        "for i in range(200): print(i, 'x' * 1000, flush=True); time.sleep(0.005)",
        "open(f'{os.getpid()}.end', 'w').close()",
    )
    done = in_shell(tmp_path, f"set -o pipefail; {command}")
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr
    assert len(list(tmp_path.glob("*.end"))) == 2
    assert Run(only_run(tmp_path)).status()["state"] == "done"


def test_a_failed_job_without_a_reader_has_its_exit_code(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time; print('x', flush=True); time.sleep(1); raise SystemExit(4)")
    done = in_shell(tmp_path, f"set -o pipefail; {LAUNCH} 2>&1 | true")
    assert done.returncode == 1
    assert Run(only_run(tmp_path)).status()["state"] == "failed"


def test_a_character_that_the_encoding_lacks_is_shown_by_its_number(tmp_path: Path) -> None:
    write(
        tmp_path, "train.py", "import sys; sys.stdout.buffer.write('caf\\xe9 \\u2192 \\U0001f600'.encode())"
    )
    done = in_shell(tmp_path, EACH, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.decode("latin-1").splitlines())
    assert lines == [f"worker {i} | caf\xe9 \\u2192 \\U0001f600" for i in (0, 1)]


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("latin-1", "\\u2603"), ("ascii:replace", "?"), ("utf-8", "\N{SNOWMAN}"), ("ascii:strict", None)],
)
def test_a_program_prints_what_its_encoding_lacks(tmp_path: Path, encoding: str, shown: str | None) -> None:
    write(tmp_path, "train.py", "print('snowman \\u2603')", "print('goes on')")
    done = in_shell(tmp_path, EACH, PYTHONIOENCODING=encoding)
    if shown is None:
        assert done.returncode == 1 and b"UnicodeEncodeError" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.decode().splitlines())
    assert lines == sorted(f"worker {i} | {line}" for i in (0, 1) for line in ("goes on", f"snowman {shown}"))


def test_a_program_has_another_encoding_than_utf_8(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "print('gr\\xf6\\xdfer')", "raise SystemExit('gr\\xf6\\xdfer')")
    # The failure of one of two workers may end the other before it prints.
    done = in_shell(tmp_path, LAUNCH.replace("-n 2", "-n 1"), PYTHONIOENCODING="latin-1")
    shown = done.stdout.decode("latin-1").splitlines()
    assert set(shown) == {"worker 0 | gr\xf6\xdfer"}
    assert "gr\xf6\xdfer" in done.stderr.decode("latin-1")
    # In any other session.
    run = Run(only_run(tmp_path))
    assert run.logs(lines=1)["worker 0"] == "gr\xf6\xdfer\n"
    error = run.error()
    assert error is not None and "gr\xf6\xdfer" in error["last_lines"]
    detached = in_shell(
        tmp_path, LAUNCH.replace("train.py", "--detach gr\xf6\xdfer.py"), PYTHONIOENCODING="latin-1"
    )
    assert "no file gr\xf6\xdfer.py" in detached.stderr.decode("latin-1")


@pytest.mark.parametrize("nohup", [True, False])
def test_a_closed_terminal_ends_a_job_unless_nohup_protects_it(tmp_path: Path, nohup: bool) -> None:
    write(tmp_path, "train.py", "import time; print('begins', flush=True); time.sleep(3)")
    command = [*(["nohup"] if nohup else []), *TFMUSTER, "launch", "-n", "2", "train.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as launcher:
        assert launcher.stdout is not None
        while b"begins" not in (line := launcher.stdout.readline()):
            assert line
        launcher.send_signal(signal.SIGHUP)
        said = launcher.stdout.read().decode()
        assert launcher.wait(timeout=30) == (0 if nohup else 130), said
    assert Run(only_run(tmp_path)).status()["state"] == ("done" if nohup else "interrupted")


def test_a_program_under_nohup_survives_in_a_worker_that_others_started(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time; print('begins', flush=True); time.sleep(2)")
    with subprocess.Popen(
        ["nohup", *TFMUSTER, "worker", "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env=environment(
            TF_CONFIG='{"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}'
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as worker:
        assert worker.stdout is not None
        while b"begins" not in (line := worker.stdout.readline()):
            assert line
        worker.send_signal(signal.SIGHUP)
        assert worker.wait(timeout=30) == 0


def test_a_detached_job_is_followed_and_stopped_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time; print('begins', flush=True); time.sleep(99)")
    begun = time.monotonic()
    done = tfmuster("launch", "--detach", "-n", 2, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert in_time(begun, 30)
    name = done.stdout.strip()
    run = Run(only_run(tmp_path))
    assert name == run.name and run.status()["state"] == "running"
    assert f"tfmuster runs stop    {name}" in done.stderr
    wait_until(lambda: "begins" in run.logs().get("worker 1", ""))
    assert tfmuster("runs", "stop", name, cwd=tmp_path).returncode == 0
    wait_until(lambda: run.status()["state"] == "interrupted")


def test_detach_refuses_what_needs_a_terminal_and_a_job_that_cannot_start(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "print('x')")
    refused = tfmuster("launch", "--detach", "--timings", "train.py", cwd=tmp_path)
    assert refused.returncode == 2 and "--timings is about output" in refused.stderr
    missing = tfmuster("launch", "--detach", "absent.py", cwd=tmp_path)
    # The same words as without --detach.
    assert missing.stderr == (
        "Error: The script to run must exist.\n"
        f"  found: no file absent.py in {tmp_path}\n"
        "  to do: Check the path; it is relative to the working directory.\n"
    )
    assert missing.returncode == 2


def test_one_worker_is_one(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "print('x')")
    done = tfmuster("launch", "--detach", "-n", 1, "train.py", cwd=tmp_path)
    assert done.stderr.startswith("tfmuster: 1 worker started; run directory ")
    wait_until(lambda: Run(only_run(tmp_path)).status()["state"] == "done")
