"""``tfmuster launch`` and ``launch()``: workers of this machine, their places and their runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.launching import (
    TFMUSTER,
    environment,
    nothing_left,
    only_run,
    python,
    read_json,
    tfmuster,
    wait_until,
    write,
)
from support.r import NEEDS_R
from tfmuster import __version__
from tfmuster.errors import LaunchError, WorkerError
from tfmuster.launcher import launch
from tfmuster.options.table import Control
from tfmuster.system.limits import usable_cores
from tfmuster.system.worker_environment import SITE
from tfmuster.tracking.live.states import read_events
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.listing import find_run, runs_in

pytestmark = pytest.mark.fresh

TASK = "import json, os; config = json.loads(os.environ['TF_CONFIG']); task = config['task']"

#: Lines of a program that waits for the other one of two workers.
MEET = (
    "import os, pathlib, time",
    "open(f'{os.getpid()}.here', 'w').close()",
    "while len(list(pathlib.Path().glob('*.here'))) < 2: time.sleep(0.01)",
)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    yield
    nothing_left(tmp_path)


def test_each_worker_gets_its_place_and_the_arguments(tmp_path: Path) -> None:
    names = "('PYTHONHASHSEED', 'no_proxy', 'no_grpc_proxy')"
    write(
        tmp_path,
        "train.py",
        TASK,
        "import sys",
        f"print(json.dumps([config, sys.argv[1:], *map(os.environ.get, {names})]))",
    )
    env = {"PYTHONHASHSEED": "random", "no_proxy": "example.org, 127.0.0.1"}
    done = tfmuster(
        "launch", "--all-output", "-n", 3, "train.py", "--epochs", 2, "-n", "a b", cwd=tmp_path, **env
    )
    assert done.returncode == 0, done.stderr
    seen = dict(line.split(" | ", 1) for line in done.stdout.splitlines())
    assert sorted(seen) == ["worker 0", "worker 1", "worker 2"]
    for index in range(3):
        config, arguments, *variables = json.loads(seen[f"worker {index}"])
        assert variables == ["0", *["example.org,127.0.0.1"] * 2]
        assert config["task"] == {"type": "worker", "index": index}
        assert len(set(config["cluster"]["worker"])) == 3
        assert arguments == ["--epochs", "2", "-n", "a b"]
    run = only_run(tmp_path)
    assert run.name.endswith("Z-train")
    assert read_json(run / "run.json")["cluster"] == config["cluster"]
    assert read_json(run / "status.json")["tasks"]["worker 2"] | {"pid": 0} == {
        "state": "done",
        "host": socket.gethostname(),
        "pid": 0,
        "exit_code": 0,
    }
    assert (run / "logs" / "worker-1.log").read_text() == seen["worker 1"] + "\n"


@NEEDS_R
def test_an_r_script_runs_with_this_python_for_reticulate(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.R",
        "cat(Sys.getenv('RETICULATE_PYTHON'), commandArgs(TRUE), nchar(Sys.getenv('TF_CONFIG')) > 0)",
    )
    done = tfmuster("launch", "--all-output", "-n", 2, "train.R", "7", cwd=tmp_path, RETICULATE_PYTHON="")
    assert done.returncode == 0, done.stderr
    assert f"worker 1 | {sys.executable} 7 TRUE" in done.stdout.splitlines()


def test_commands_and_tfmuster_itself(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, "--", "sh", "-c", "echo $0 $TF_CONFIG", "x", cwd=tmp_path)
    assert done.stdout.count('x {"cluster":') == 2
    done = tfmuster("launch", "-n", 1, "--", "tfmuster", "--version", cwd=tmp_path, PATH="/usr/bin:/bin")
    assert done.stdout == "worker 0 | tfmuster 0.1.0\n"
    (tmp_path / "package").mkdir()
    write(tmp_path, "package/train.py", "import sys; print(__name__, sys.argv[1:])")
    done = tfmuster("launch", "-n", 1, "-m", "package.train", "--epochs", 3, cwd=tmp_path)
    assert done.stdout == "worker 0 | __main__ ['--epochs', '3']\n"
    run = find_run("package.train", tmp_path / "runs", changes=True)
    assert run.info()["command"] == ["-m", "package.train", "--epochs", "3"]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (["nope.py"], "no file nope.py"),
        (["no-such-command"], "no no-such-command"),
        (["train.R"], "no file train.R"),
    ],
)
def test_what_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, program: list[str], message: str
) -> None:
    done = tfmuster("launch", *program, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_lines_that_all_workers_print_are_shown_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        TASK,
        *MEET,
        "print('summary', 'of the model', sep='\\n')",
        "if task['index'] == 0: print('bar of the chief')",
        "print('the end', flush=True)",
        "if task['index'] == 1:",
        "    time.sleep(1.5)",
        "    print('last words', flush=True)",
        "    raise ValueError('no luck')",
        "time.sleep(30)",
    )
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path)
    assert done.returncode == 1 and "ValueError: no luck" in done.stderr
    shown = [*(f"[2 workers] | {line}" for line in ("summary", "of the model", "the end"))]
    shown[2:2] = ["worker 0 | bar of the chief"]
    assert done.stdout.splitlines() == [*shown, "worker 1 | last words"]
    logs = Run(only_run(tmp_path)).logs()
    assert logs["worker 0"] == "summary\nof the model\nbar of the chief\nthe end\n"
    for follow in ((), ("--follow",)):
        assert tfmuster("runs", "logs", *follow, cwd=tmp_path).stdout.splitlines()[:4] == shown
    every = tfmuster("runs", "logs", "--all-output", cwd=tmp_path).stdout.splitlines()
    assert every[:4] == [f"worker 0 | {line}" for line in logs["worker 0"].splitlines()]


def test_output_of_the_chief_or_of_all(tmp_path: Path) -> None:
    done = tfmuster("launch", "--only-chief", "--all-output", "--", "true", cwd=tmp_path)
    assert done.returncode == 2 and "all_output that of all workers" in done.stderr
    done = tfmuster("launch", "--detach", "--all-output", "--", "true", cwd=tmp_path)
    assert done.returncode == 2 and "--all-output is about output, and --detach shows none" in done.stderr


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("--quiet", []),
        ("--only-chief", ["worker 0"]),
        ("--all-output", ["worker 0", "worker 1"]),
        (None, ["[2 workers]"]),
    ],
)
def test_whose_lines_are_shown(tmp_path: Path, option: str | None, shown: list[str]) -> None:
    write(tmp_path, "train.py", *MEET, "print('hello')")
    done = tfmuster("launch", "-n", 2, *filter(None, [option]), "train.py", cwd=tmp_path)
    assert sorted(line.split(" | ")[0] for line in done.stdout.splitlines()) == shown
    assert bool(done.stderr) == (option != "--quiet")
    assert (only_run(tmp_path) / "logs" / "worker-1.log").read_text() == "hello\n"


def test_a_parameter_server_and_an_evaluator_end_with_the_workers(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        TASK,
        "import time",
        "time.sleep(0 if task['type'] in ('chief', 'worker') else 99)",
    )
    done = tfmuster("launch", "-n", 2, "--ps", 2, "--chief", "--evaluator", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 chief, 2 workers, 2 parameter servers, 1 evaluator" in done.stderr
    tasks = read_json(only_run(tmp_path) / "status.json")["tasks"]
    assert {task: entry["state"] for task, entry in tasks.items()} == {
        "chief 0": "done",
        "worker 0": "done",
        "worker 1": "done",
        "ps 0": "ended",
        "ps 1": "ended",
        "evaluator 0": "ended",
    }


def test_from_python_a_run_or_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "train.py", "import os, sys", "print(os.environ['COLOUR'])", "sys.exit(int(sys.argv[1]))")
    control = Control(env={"COLOUR": "green"}, all_output=True)
    run = launch("train.py", "0", workers=2, control=control, run_dir=tmp_path / "first")
    assert run.status()["state"] == "done"
    assert run.logs() == {"worker 0": "green\n", "worker 1": "green\n"}
    assert sorted(capfd.readouterr().out.splitlines()) == ["worker 0 | green", "worker 1 | green"]
    with pytest.raises(WorkerError) as failed:
        launch(tmp_path / "train.py", "5", workers=1, quiet=True, control=Control(env={"COLOUR": "red"}))
    assert failed.value.fields["task"] == "worker 0"
    assert failed.value.fields["exit_code"] == 5
    assert failed.value.fields["last_lines"] == ("red",)
    with pytest.raises(LaunchError, match="must be new"):
        launch("train.py", "0", run_dir=tmp_path / "first")
    for count in (0, -1, True, 1.5):
        with pytest.raises(LaunchError, match="whole number"):
            launch("train.py", workers=count)  # type: ignore[arg-type]


def test_a_program_that_launches_itself_is_refused_in_its_first_worker(tmp_path: Path) -> None:
    write(tmp_path, "own.py", "import tfmuster", "tfmuster.launch('own.py', workers=2)")
    done = python("own.py", cwd=tmp_path)
    assert done.returncode == 1
    refused = "A worker of a job must not launch another one: each of its workers would do so, too.\n"
    assert refused + "  found: own.py, line 2: tfmuster.launch('own.py', workers=2)\n" in done.stderr
    by_command = "import subprocess, sys", "sys.exit(subprocess.call([*sys.argv[1:], 'own.py']))"
    command = (sys.executable, "-m", "tfmuster", "launch", "-n", 2)
    done = tfmuster("launch", "-n", 1, write(tmp_path, "calls.py", *by_command), *command, cwd=tmp_path)
    assert done.returncode == 1 and f"{refused}  found: tfmuster launch -n 2 own.py\n" in done.stderr
    assert len(runs_in(tmp_path / "runs")) == 2


@pytest.mark.parametrize("face", ["shell", "python"])
def test_more_processes_than_the_machine_carries_start_only_if_asked_for(tmp_path: Path, face: str) -> None:
    program, many = write(tmp_path, "train.py", "print('runs')"), 4 * usable_cores() + 1
    if face == "shell":
        done = tfmuster("launch", "-n", many, program, cwd=tmp_path)
        assert done.returncode == 2 and f"found: processes: {many}, cores: " in done.stderr
        done = tfmuster("launch", "-n", many, "--oversubscribe", "-q", program, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(list(only_run(tmp_path).glob("logs/*.log"))) == many
    else:
        with pytest.raises(LaunchError, match=f"found: processes: {many}, cores: "):
            launch(program, workers=many)
        with pytest.raises(LaunchError, match="processes: 1000"):
            launch(print, workers=1000)
        with pytest.raises(LaunchError, match="To start all here, set oversubscribe=True"):
            launch(program, workers=many, wait=False)
        assert runs_in(tmp_path / "runs") == []


def test_many_processes_start_a_few_at_a_time(tmp_path: Path) -> None:
    """The next one starts when an earlier one has said something, or after half a second."""
    at_once, many = 2 * usable_cores(), 2 * usable_cores() + 4
    write(tmp_path, "train.py", "import time; time.sleep(0.3); print(time.time(), flush=True); time.sleep(4)")
    write(tmp_path, "silent.py", "import time; time.sleep(4)")

    def starts(program: str) -> list[float]:
        done = tfmuster("launch", "-n", many, "--oversubscribe", program, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        events = read_events(next((tmp_path / "runs").glob(f"*-{program[:-3]}"))).values()
        return sorted(event["time"] for row in events for event in row if event["phase"] == "started")

    silent = starts("silent.py")
    assert len(silent) == many
    # The first ones do not wait for each other, and each later one does.
    assert silent[at_once - 1] - silent[0] < 0.5 * (at_once - 1)
    assert all(after - before >= 0.5 for before, after in pairwise(silent[at_once - 1 :]))
    started = starts("train.py")
    run = next((tmp_path / "runs").glob("*-train"))
    said = [float(path.read_text()) for path in run.glob("logs/*.log")]
    for number in range(at_once, many):
        busy = number - sum(time < started[number] for time in said)
        assert busy < at_once or started[number] - started[number - 1] >= 0.5


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of 200 MB."""
    roots = {"memory.limit_in_bytes": Path("/sys/fs/cgroup/memory"), "memory.max": Path("/sys/fs/cgroup")}
    limit, root = next((name, root) for name, root in roots.items() if root.is_dir())
    folder = root / f"tfmuster-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / limit).write_text("200000000")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    yield folder
    folder.rmdir()


def test_memory_that_a_control_group_limits(tmp_path: Path, small_group: Path) -> None:
    write(tmp_path, "train.py", "import keras")
    enter = f'echo $$ > {small_group}/cgroup.procs && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", enter, "sh", *TFMUSTER, "launch", "-n", "1", "train.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert "processes: 1, of 300 MB or more each; free memory: 1" in done.stderr


def test_the_function_stays_one_when_its_package_is_imported(tmp_path: Path) -> None:
    code = "import tfmuster, tfmuster.launcher.job; print(tfmuster.launch('train.py', workers=1, quiet=True))"
    write(tmp_path, "train.py", "")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.endswith("-train: done>\n"), done.stderr


def test_a_detached_run_goes_on_and_can_be_stopped_from_elsewhere(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time", "print('begun', flush=True)", "time.sleep(99)")
    code = "import tfmuster; print(tfmuster.launch('train.py', workers=2, wait=False, name='long').path)"
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = Run(done.stdout.strip())
    wait_until(lambda: run.logs() == {"worker 0": "begun\n", "worker 1": "begun\n"})
    assert run.status()["state"] == "running"
    assert [each.path for each in runs_in(tmp_path / "runs")] == [run.path]
    stopped = tfmuster("runs", "stop", "long", cwd=tmp_path)
    assert stopped.stdout == f"{run.name}: interrupted\n"
    assert run.stop()["state"] == "interrupted"


@pytest.mark.parametrize(("code", "restarts"), [(0, 0), (3, 0), (3, 1)])
def test_nothing_is_written_to_a_run_after_its_last_state(tmp_path: Path, code: int, restarts: int) -> None:
    write(tmp_path, "train.py", f"raise SystemExit({code})")
    tfmuster("launch", "-n", 2, "--max-restarts", restarts, "train.py", cwd=tmp_path)
    written = sorted(only_run(tmp_path).rglob("*"), key=lambda path: path.stat().st_mtime_ns)
    assert "tfruns.d" in [path.name for path in written]
    assert written[-1].name == "status.json"


def test_a_session_that_waits_for_a_run_outlives_its_end(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time", "print('begun', flush=True)", "time.sleep(99)")
    code = (
        "import tfmuster",
        "try: tfmuster.launch('train.py', workers=2, name='waits')",
        "except tfmuster.TfmusterError as error: print('the session:', error)",
        "print(tfmuster.launch('done.py', workers=1).stop()['state'])",
    )
    write(tmp_path, "done.py", "")
    session = subprocess.Popen(
        [sys.executable, "-c", "\n".join(code)], stdout=subprocess.PIPE, text=True, env=environment()
    )
    wait_until(lambda: len(list((tmp_path / "runs").glob("*-waits/logs/*.log"))) == 2)
    run = runs_in(tmp_path / "runs")[0]
    wait_until(lambda: run.logs() == {"worker 0": "begun\n", "worker 1": "begun\n"})
    assert tfmuster("runs", "stop", "waits", cwd=tmp_path).stdout == f"{run.name}: interrupted\n"
    said, _ = session.communicate(timeout=60)
    assert session.returncode == 0
    assert f"the session: The run {run.name} was stopped." in said
    # A run that is done ends nothing any more, not the session that has started it.
    assert said.endswith("done\n")


def test_a_detached_run_that_can_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as failed:
        launch("nope.py", wait=False)
    assert "no file nope.py" in str(failed.value)


def test_runs_are_listed_shown_and_followed(tmp_path: Path) -> None:
    write(tmp_path, "train.py", TASK, "print('I am', task['index'])", "raise SystemExit(task['index'])")
    tfmuster("launch", "-n", 1, "--name", "good", "train.py", cwd=tmp_path)
    tfmuster("launch", "-n", 2, "--name", "bad", "train.py", cwd=tmp_path)
    lines = tfmuster("runs", "list", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[1] for line in lines if "good" in line] == ["done"]
    assert [line.split()[1] for line in lines if "bad" in line] == ["failed"]
    assert "first failure: worker 1" in tfmuster("runs", "show", "bad", cwd=tmp_path).stdout
    assert (
        json.loads(tfmuster("runs", "show", "good", "--json", cwd=tmp_path).stdout)["status"]["state"]
        == "done"
    )
    assert tfmuster("runs", "logs", "-f", "good", cwd=tmp_path).stdout == "worker 0 | I am 0\n"
    assert tfmuster("runs", "logs", "bad", "--task", "worker 7", cwd=tmp_path).returncode == 2
    assert "no runs in runs" not in tfmuster("runs", "show", "ugly", cwd=tmp_path).stdout


class TestSite:
    """What `sitecustomize` does to the Python of a worker, by itself."""

    def python(self, code: str, *path: Path, options: tuple[str, ...] = (), **env: str) -> str:
        folders = ":".join(map(str, (SITE, *path)))
        done = subprocess.run(
            [sys.executable, *options, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment(PYTHONPATH=folders, TFMUSTER_JOB="x", **env),
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def test_it_prints_nothing_and_imports_nothing(self) -> None:
        code = "import sys; print(*sorted(sys.modules))"
        assert set(self.python(code).split()) - set(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout.split()
        ) <= {"sitecustomize"}

    def test_a_line_is_written_in_one_piece(self) -> None:
        """So that no message of TensorFlow comes between its words."""
        reader, writer = os.pipe2(os.O_DIRECT)  # it keeps the pieces apart
        subprocess.run(
            [sys.executable, "-c", "print('loss:', 1); print('..', end=''); print('end', 2)"],
            stdout=writer,
            check=True,
            timeout=60,
            env=environment(PYTHONPATH=str(SITE), TFMUSTER_JOB="x"),
        )
        os.close(writer)
        with open(reader, "rb", buffering=0) as pieces:
            assert [pieces.read(100) for _ in range(3)] == [b"loss: 1\n", b"..end 2\n", b""]

    def test_it_makes_way_for_the_other_one(self, tmp_path: Path) -> None:
        write(tmp_path, "sitecustomize.py", "COLOUR = 'green'")
        assert self.python("import sitecustomize; print(sitecustomize.COLOUR)", tmp_path) == "green\n"
        # Of another length: Python compares a compiled file by size and whole seconds.
        write(tmp_path, "sitecustomize.py", "import not_there_either")
        with pytest.raises(AssertionError, match="not_there"):
            self.python("pass", tmp_path)

    def test_keras_is_repaired_when_it_is_imported_and_not_before(self, tmp_path: Path) -> None:
        (tmp_path / "keras").mkdir()
        write(tmp_path / "keras", "__init__.py", "__version__ = '3.0'")
        (tmp_path / "tfmuster" / "worker").mkdir(parents=True)
        for package in (tmp_path / "tfmuster", tmp_path / "tfmuster" / "worker"):
            write(package, "__init__.py", "")
        write(
            tmp_path / "tfmuster" / "worker",
            "import_hook.py",
            "def install_import_hook(keras): print('repaired', keras)",
        )
        code = "print('before'); import keras; print('after')"
        assert self.python(code, tmp_path) == "before\nrepaired True\nafter\n"
        assert self.python(code, tmp_path, TFMUSTER_KERAS_COMPAT="0") == "before\nrepaired False\nafter\n"

    def test_tfmuster_is_found_from_a_python_that_has_it_not(self) -> None:
        # By its path: it makes way for the system's sitecustomize, which Debian's Python has.
        name = "sitecustomize"
        find = f"u.spec_from_file_location({name!r}, {str(SITE / name)!r} + '.py')"
        load = (
            f"import sys, importlib.util as u; s = {find}; sys.modules[{name!r}] = m = u.module_from_spec(s)"
        )
        code = f"{load}; s.loader.exec_module(m); m._tfmuster(); import tfmuster; print(tfmuster.__version__)"
        assert self.python(code, options=("-S",)) == f"{__version__}\n"
