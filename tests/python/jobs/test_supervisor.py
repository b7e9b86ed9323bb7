"""How workers end, which failure is the cause, and that nothing of a job is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from support.clock import in_time, took_at_most
from support.launching import (
    DISK_IS_FULL,
    TFMUSTER,
    environment,
    nothing_left,
    only_run,
    processes_in,
    python,
    read_json,
    start_tfmuster,
    tfmuster,
    wait_until,
    write,
)
from tfmuster import launch
from tfmuster.launcher.supervise import supervisor
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.fresh

TASK = "import json, os, signal, sys, time; index = json.loads(os.environ['TF_CONFIG'])['task']['index']"
# As TensorFlow does.
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path):
    yield
    nothing_left(tmp_path)


def fail(
    tmp_path: Path, *lines: str, workers: int = 2
) -> tuple[subprocess.CompletedProcess[str], dict, float]:
    """Launch a script that fails; what was printed, error.json, and the seconds that it took."""
    write(tmp_path, "train.py", TASK, *lines)
    begun = time.monotonic()
    done = tfmuster("launch", "-n", workers, "train.py", cwd=tmp_path)
    took = time.monotonic() - begun
    nothing_left(tmp_path)
    assert done.returncode == 1
    return done, read_json(only_run(tmp_path) / "error.json"), took


def test_chatter_is_in_the_log_and_shown_on_demand(tmp_path: Path) -> None:
    chatter = "I0000 00:00:1795246568.252927   21407 port.cc:153] oneDNN custom operations are on."
    write(tmp_path, "train.py", f"print({chatter!r})", "print('news')")
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path)
    assert done.stdout == "worker 0 | news\n"
    assert chatter in (only_run(tmp_path) / "logs" / "worker-0.log").read_text()
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path, TF_CPP_MIN_LOG_LEVEL="0")
    assert chatter in done.stdout
    # A session that has imported TensorFlow, as one with a model that a job returned, shows no more of it.
    session = "import tfmuster; tfmuster.mnist_model('softmax'); tfmuster.launch('train.py', workers=1)"
    done = python("-c", session, cwd=tmp_path, limit=100)
    assert "worker 0 | news\n" in done.stdout and chatter not in done.stdout


def test_the_first_failure_is_shown_last_and_ends_the_job(tmp_path: Path) -> None:
    done, error, took = fail(
        tmp_path,
        DEAF,
        "print('index', index, flush=True)",
        "if index == 1:",
        "    time.sleep(0.5)",
        "    raise ValueError('bad digit')",
        "time.sleep(99)",
        workers=3,
    )
    assert took_at_most(took, 6)
    log = only_run(tmp_path) / "logs" / "worker-1.log"
    shown = done.stderr[done.stderr.index("\n\n") + 2 :].splitlines()
    assert shown[0] == f"worker 1 on {error['host']} failed with exit code 1: ValueError: bad digit"
    assert shown[2] == "Traceback (most recent call last):"
    assert done.stdout.count("worker 1 | index 1") == 1
    # The report has the traceback, so it is not among the lines of the worker; its log has all.
    assert "Traceback" not in done.stdout and "bad digit" not in done.stdout
    assert log.read_text().splitlines()[-1] == "ValueError: bad digit"
    assert shown[-3:] == ["ValueError: bad digit", "", f"Full output: {log}"]
    assert error["task"] == "worker 1"
    assert error["exit_code"] == 1
    assert error["signal"] is None
    assert error["traceback"].splitlines()[-1] == "ValueError: bad digit"
    assert [entry["state"] for entry in Run(only_run(tmp_path)).status()["tasks"].values()] == [
        "ended",
        "failed",
        "ended",
    ]


@pytest.mark.parametrize(
    ("line", "headline"),
    [
        ("sys.exit(3)", "failed with exit code 3."),
        ("os._exit(7)", "failed with exit code 7."),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL."),
        ("os.abort()", "was ended by SIGABRT."),
        ("os._exit(137)", "failed with exit code 137 (SIGKILL)."),
        ("import not_there", "failed with exit code 1: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_how_a_worker_ended_in_words(tmp_path: Path, line: str, headline: str) -> None:
    done, error, _ = fail(tmp_path, line, workers=1)
    assert f"\n\nworker 0 on {error['host']} {headline}\n" in done.stderr
    assert ("ran out of memory" in done.stderr) == ("SIGKILL" in headline)


def test_an_error_on_purpose_says_all_by_itself(tmp_path: Path) -> None:
    train = ["tfmuster", "train", "mnist", "--dataset", "not there.npz"]
    done = tfmuster("launch", "-n", 1, "--run-dir", "r", "--", *train, cwd=tmp_path)
    error = read_json(tmp_path / "r" / "error.json")
    assert error["error"].startswith("tfmuster.errors.DataError: ")
    first = error["error"].removeprefix("tfmuster.errors.DataError: ").splitlines()[0]
    assert f"worker 0 on {error['host']} failed with exit code 2: {first}\n  found: " in done.stderr
    assert done.stderr.count(first) == 1
    assert "Traceback" not in done.stderr
    assert error["fix"] == done.stderr.partition("\n  to do: ")[2].partition("\n\n")[0]


def test_settings_that_an_error_names_are_data(tmp_path: Path) -> None:
    raises = [
        "from tfmuster.errors import LaunchError",
        "from tfmuster.options.hints import Hint",
        "from tfmuster.words import Words",
    ]
    fix = 'Words("Start fewer ({}).", Hint("workers", 1))'
    done, error, _ = fail(tmp_path, *raises, f"raise LaunchError('Too many.', fix={fix})", workers=1)
    assert error["fix"] == "Start fewer (-n 1)."
    assert error["hints"] == [{"option": "workers", "value": 1}]
    assert done.stderr.count("Start fewer") == 1


def test_only_the_last_twenty_lines_are_repeated(tmp_path: Path) -> None:
    done, error, _ = fail(tmp_path, "for i in range(50): print('line', i)", "sys.exit(1)", workers=1)
    assert error["last_lines"] == [f"line {i}" for i in range(30, 50)]
    assert "line 29" not in done.stderr
    assert (only_run(tmp_path) / "logs" / "worker-0.log").read_text().count("line") == 50


def test_what_a_worker_has_not_printed_of_its_error_is_added_to_its_log(tmp_path: Path) -> None:
    # As R does, which prints only the first line.
    done, error, _ = fail(
        tmp_path,
        "from pathlib import Path",
        "from tfmuster.tracking.failure.error_file import write_note",
        "print('Error in `g()`: no luck', flush=True)",
        "trace = 'Backtrace:\\n 1. f()\\n 2. g()'",
        "note = {'error': 'Error in `g()`: no luck', 'traceback': trace, 'unprinted': trace}",
        "write_note(Path(os.environ['TFMUSTER_ERROR_FILE']), {**note, 'time': time.time()})",
        "sys.exit(1)",
        workers=1,
    )
    trace = "Backtrace:\n 1. f()\n 2. g()"
    assert (error["error"], error["traceback"]) == ("Error in `g()`: no luck", trace)
    log = (only_run(tmp_path) / "logs" / "worker-0.log").read_text()
    assert log == f"Error in `g()`: no luck\n{trace}\n"
    assert "Backtrace" not in done.stdout
    assert done.stderr.count("no luck") == 1


def test_the_earliest_error_counts_not_the_earliest_end(tmp_path: Path) -> None:
    # Worker 0 has the cause, but takes long to leave Python; worker 1 misses it and ends at once.
    _, error, took = fail(
        tmp_path,
        "import atexit",
        "atexit.register(time.sleep, 99)",
        "if index == 0:",
        "    raise ValueError('the cause')",
        "time.sleep(1)",
        "os._exit(1)",
    )
    assert error["error"] == "ValueError: the cause"
    assert error["task"] == "worker 0"
    assert took_at_most(took, 6)


def test_who_only_misses_a_peer_is_not_the_cause(tmp_path: Path) -> None:
    # TensorFlow notices that a peer is gone sooner than the launcher does.
    _, error, _ = fail(
        tmp_path,
        "import atexit; atexit.register(time.sleep, 1)",
        "class UnavailableError(Exception): __module__ = 'tensorflow.python.framework.errors_impl'",
        "if index:",
        "    open('raised', 'w').close()",
        "    raise UnavailableError('Collective ops is aborted')",
        "while not os.path.exists('raised'): time.sleep(0.01)",
        "time.sleep(0.1)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    assert (error["task"], error["signal"]) == ("worker 0", "SIGKILL")


def test_a_failed_worker_that_does_not_end_is_ended(tmp_path: Path) -> None:
    _, error, took = fail(
        tmp_path,
        DEAF,
        "import atexit; atexit.register(time.sleep, 99)",
        "if index: raise ValueError('x')",
        "time.sleep(99)",
    )
    assert (error["task"], error["exit_code"], error["error"]) == ("worker 1", 1, "ValueError: x")
    assert took_at_most(took, 12)


def test_a_failure_that_a_worker_survives_is_none(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import subprocess, sys, time",
        "subprocess.run([sys.executable, '-c', 'raise ValueError(1)'])",
        "time.sleep(6)",
    )
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path)
    assert done.returncode == 0
    assert not (only_run(tmp_path) / "error.json").exists()


def test_descendants_end_with_the_job_wherever_they_hide(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.sh",
        "sleep 97 &",
        "setsid sleep 98 &",
        "(env -i sleep 99; true) &",
        "sleep 0.5",
        "exit $1",
    )
    for code in (0, 4):
        done = tfmuster("launch", "-n", 2, "--", "bash", "train.sh", code, cwd=tmp_path)
        assert done.returncode == (code > 0)
        nothing_left(tmp_path)


def test_many_lines_are_whole_and_complete(tmp_path: Path) -> None:
    write(tmp_path, "train.py", TASK, "for i in range(5000): print(index, i, 'x' * 50)")
    done = tfmuster("launch", "-n", 4, "train.py", cwd=tmp_path)
    lines = done.stdout.splitlines()
    for index in range(4):
        own = [line for line in lines if line.startswith(f"worker {index} | ")]
        assert own == [f"worker {index} | {index} {i} {'x' * 50}" for i in range(5000)]
    assert len(lines) == 20_000


def begin(tmp_path: Path, *lines: str) -> subprocess.Popen[str]:
    """Launch two deaf workers and wait until both run."""
    write(tmp_path, "train.py", TASK, DEAF, *lines, "print('ready', flush=True)", "time.sleep(99)")
    launcher = start_tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path)
    logs = tmp_path / "runs"
    wait_until(lambda: sum("ready" in log.read_text() for log in logs.glob("*/logs/*.log")) == 2)
    return launcher


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_the_launcher_ends_its_workers(tmp_path: Path, number: signal.Signals) -> None:
    launcher = begin(tmp_path)
    launcher.send_signal(number)
    output, _ = launcher.communicate(timeout=5)
    assert launcher.returncode == 130
    assert output.splitlines()[-1] == "tfmuster: interrupted; every worker has been ended."
    assert "Traceback" not in output
    assert Run(only_run(tmp_path)).status()["state"] == "interrupted"


@pytest.mark.timed
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    launcher = begin(tmp_path)
    launcher.send_signal(signal.SIGINT)
    time.sleep(0.3)
    launcher.send_signal(signal.SIGINT)
    begun = time.monotonic()
    output, _ = launcher.communicate(timeout=5)
    assert in_time(begun, 1.5)
    assert launcher.returncode == 130
    assert "Traceback" not in output


#: How a process hides from a search by environment: a new title overwrites it (setproctitle does this), a
#: child has an empty one, and a daemon has neither parent nor session of the job.
HIDING = {
    "title": "import setproctitle; setproctitle.setproctitle('train')",
    "empty environment": "import subprocess; subprocess.Popen(['env', '-i', 'sleep', '97'])",
    "daemon": "import subprocess; subprocess.run('setsid env -i sleep 97 & sleep 0.3', shell=True)",
}


@pytest.mark.parametrize("how", HIDING)
def test_a_process_that_hides_ends_with_its_job(tmp_path: Path, how: str) -> None:
    launcher = begin(tmp_path, HIDING[how])
    assert len(processes_in(tmp_path)) >= 4
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=15)
    nothing_left(tmp_path)


def test_a_daemon_of_a_worker_ends_with_a_job_that_a_session_launches(tmp_path: Path) -> None:
    """The session's own daemons stay, those of before and those that are made meanwhile."""
    write(tmp_path, "daemon.py", HIDING["daemon"])
    write(
        tmp_path,
        "session.py",
        "import subprocess, threading, time, tfmuster",
        "start = 'setsid sleep {} > /dev/null 2>&1 & sleep 0.1'",
        "subprocess.run(start.format(95), shell=True)",
        "later = threading.Timer(0.3, subprocess.run, [start.format(96)], dict(shell=True))",
        "later.start()",
        "tfmuster.launch('daemon.py', workers=1, quiet=True)",
        "later.join()",
        "import ctypes",
        "flag = ctypes.c_int(5)",
        "ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0)",
        "print('adopts', flag.value)",
    )
    done = python("session.py", cwd=tmp_path, limit=30)
    left = processes_in(tmp_path)
    for text in left:
        psutil.Process(int(text.split(":")[0])).kill()
    assert sorted(text.split()[-1] for text in left) == ["95", "96"], (left, done.stderr)
    assert "adopts 0" in done.stdout


def test_what_a_launcher_has_started_itself_is_no_orphan(tmp_path: Path) -> None:
    write(
        tmp_path,
        "launcher.py",
        "import subprocess, time",
        "from tfmuster.system.processes import adopt_orphans, end_job, job_processes",
        "adopt_orphans()",
        "own = subprocess.Popen(['sleep', '98'], start_new_session=True)",
        "subprocess.run('setsid env -i sleep 97 & sleep 0.3', shell=True)",
        "assert [process.cmdline()[-1] for process in job_processes('none')] == ['97']",
        "end_job('none', grace=0.5)",
        "assert own.poll() is None",
        "own.kill()",
        "assert own.wait() == -9",
    )
    done = python("launcher.py", cwd=tmp_path, limit=30)
    assert done.returncode == 0, done.stderr
    nothing_left(tmp_path)


@pytest.mark.parametrize("how", ["title", "empty environment"])
def test_a_process_that_hides_ends_with_a_launcher_that_is_killed(tmp_path: Path, how: str) -> None:
    launcher = begin(tmp_path, HIDING[how])
    launcher.kill()
    launcher.communicate(timeout=5)
    nothing_left(tmp_path, seconds=8)


def test_nothing_outlives_a_launcher_that_is_killed(tmp_path: Path) -> None:
    launcher = begin(tmp_path, "import subprocess; subprocess.Popen(['sleep', '98'], start_new_session=True)")
    assert len(processes_in(tmp_path)) == 6
    launcher.kill()
    launcher.communicate(timeout=5)
    nothing_left(tmp_path, seconds=5)
    assert Run(only_run(tmp_path)).status()["state"] == "lost"


def test_a_launcher_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervisor, "BEAT_SECONDS", 0.3)
    write(
        tmp_path,
        "train.py",
        "import json, os, time",
        "from pathlib import Path",
        "for _ in range(2):",
        "    time.sleep(2)",
        "    print(json.loads(Path(os.environ['TFMUSTER_RUN_DIR'], 'status.json').read_text())['updated'])",
    )
    run = launch("train.py", workers=1, quiet=True)
    first, second = run.logs()["worker 0"].split()
    assert first < second


@pytest.mark.parametrize("how", ["stop", "resume"])
@pytest.mark.parametrize("hiding", ["", *HIDING.values()][:3], ids=["nothing", *HIDING][:3])
def test_what_is_left_of_a_lost_run_is_ended(tmp_path: Path, hiding: str, how: str) -> None:
    launcher = begin(tmp_path, hiding)
    guards = [
        child
        for child in psutil.Process(launcher.pid).children()
        if "end_orphans" in " ".join(child.cmdline())
    ]
    for process in (*guards, launcher):
        process.kill()
    launcher.communicate(timeout=5)
    run = Run(only_run(tmp_path))
    left = processes_in(tmp_path)
    assert len(guards) == 1 and len(left) >= 2
    assert run.status()["state"] == "lost"
    if how == "stop":
        assert run.stop()["state"] == "lost"
    else:
        # Without the program, nothing takes the place of the old workers.
        (tmp_path / "train.py").write_text("")
        done = tfmuster("launch", "-n", 2, "--run-dir", run.path, "train.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert run.info()["resumed"] == 1
    nothing_left(tmp_path)


@DISK_IS_FULL
def test_a_full_disk_is_said(tmp_path: Path) -> None:
    # To write past a size limit fails as it does on a full disk.
    write(tmp_path, "train.py", "import time", "print('x' * 100_000, flush=True)", "time.sleep(99)")
    command = [*TFMUSTER, "launch", "-q", "-n", "2", "train.py"]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", *command],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: The run directory must be writable while the job runs.")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
@pytest.mark.parametrize("then", ["sys.exit(0)", "print('x' * 100_000); time.sleep(60)"])
def test_a_full_disk_under_the_run_directory_ends_the_job_with_its_name(tmp_path: Path, then: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
    try:
        write(
            tmp_path,
            "train.py",
            TASK,
            "try:",
            "    with open(os.environ['TFMUSTER_RUN_DIR'] + '/filler', 'wb', buffering=0) as file:",
            "        while True: file.write(bytes(4096))",
            "except OSError: pass",
            then,
        )
        done = tfmuster("launch", "-n", 1, "--run-dir", disk / "run", "train.py", cwd=tmp_path)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert done.returncode == 2
    assert "The run directory must be writable while the job runs." in done.stderr
    assert f"{disk}/run: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_directory_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "print('x')")
    (tmp_path / "runs").write_text("a file, not a folder")
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "can't be made" in done.stderr


def test_a_launcher_inside_a_job_ends_with_it(tmp_path: Path) -> None:
    write(tmp_path, "inner.py", "import time", "print('inner', flush=True)", "time.sleep(99)")
    begin(
        tmp_path,
        "import subprocess",
        "command = ['tfmuster', 'launch', '-n', '1', '--run-dir', f'in{index}', 'inner.py']",
        "subprocess.Popen([sys.executable, '-m', *command])",
    ).send_signal(signal.SIGINT)
    nothing_left(tmp_path, seconds=10)


def test_modules_in_the_working_directory_are_not_imported_by_launcher_and_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("psutil", "orjson", "tfmuster"):
        write(tmp_path, f"{module}.py", f"open('{module}.was_imported', 'w').close()")
    write(tmp_path, "train.py", "import time; time.sleep(99)")
    run = launch(tmp_path / "train.py", workers=2, wait=False, run_dir=tmp_path / "run")
    # The guard ends the job of a launcher that was killed.
    psutil.Process(run.info()["pid"]).kill()
    nothing_left(tmp_path, seconds=8)
    assert not list(tmp_path.glob("*.was_imported"))
