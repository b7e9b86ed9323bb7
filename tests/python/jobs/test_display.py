"""What a terminal shows of a job that runs."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.launching import TFMUSTER, environment, nothing_left, only_run, tfmuster, wait_until, write
from support.r import NEEDS_R
from tfmuster import launch
from tfmuster.system.terminal_text import visible
from tfmuster.tracking.live.states import read_states
from tfmuster.tracking.run import Run

SAY = "import os, time; from tfmuster.tracking.live.states import State, say_state"
#: How a terminal is told to hide its cursor, to show another screen, and the like.
MODE = "\x1b[?"
TABLE = r"worker\b.*host\b.*state\b"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path):
    yield
    nothing_left(tmp_path)


def in_terminal(
    tmp_path: Path,
    *arguments: object,
    command: Sequence[str] = (*TFMUSTER, "launch"),
    columns: int = 100,
    rows: int = 40,
    kill_at: bytes = b"",
    **env: str,
) -> tuple[str, int]:
    """What a terminal gets when a launch, or another command, writes to it, and the exit code.

    With `kill_at`, the launcher is killed as soon as the terminal has got that.
    """
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        cwd=tmp_path,
        env=environment(**{"TERM": "xterm-256color", **env}),
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    seen = bytearray()
    while True:
        try:
            piece = os.read(mine, 65_536)
        except OSError:  # Linux's word for the end
            break
        if not piece:
            break
        seen += piece
        if kill_at and kill_at in seen:
            process.kill()
    os.close(mine)
    return seen.decode(), process.wait(timeout=20)


def screen(written: str) -> list[str]:
    """What a terminal with room enough shows in the end."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-?]*[ -/]*[@-~]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif move := re.fullmatch(r"\x1b\[(\d*)A", part):
            row -= int(move[1] or 1)
            assert row >= 0
        elif part == "\x1b[2K":
            lines[row] = ""
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return lines


def test_a_table_is_shown_on_a_terminal_and_gone_in_the_end(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        SAY,
        "print('[red]line[/red] :smile: ' + 200 * 'x')",
        "say_state(State('training', epoch=2, epochs=5, step=3, metrics={'\\x1b[2Jloss': 1.5}))",
        "time.sleep(1.5)",
    )
    seen, code = in_terminal(tmp_path, "-n", 2, "--all-output", "train.py")
    assert code == 0
    shown = visible(seen.replace("\r", "").replace("\n", " "))
    assert re.search(r"worker +host +state", shown)
    assert re.search(r"worker 1 +\S+ +training  epoch 2/5  step 3  loss 1.5000", shown)
    assert "\x1b[2J" not in seen
    assert MODE not in seen
    left = [line for line in screen(seen) if line]
    assert sorted(left[1:3]) == [f"worker {i} | [red]line[/red] :smile: {200 * 'x'}" for i in (0, 1)]
    assert left[3].startswith("tfmuster: done in ") and len(left) == 4


def test_a_launcher_that_is_killed_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training')); time.sleep(99)")
    seen, code = in_terminal(tmp_path, "-n", 2, "train.py", kill_at=b"training")
    assert code == -9 and re.search(TABLE, seen)
    assert MODE not in seen
    assert re.findall(r"\x1b\[[\d;]*m", seen)[-1] == "\x1b[0m"
    nothing_left(tmp_path, seconds=5)


def test_the_failure_stands_alone_after_the_table(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time; time.sleep(1); raise ValueError('no such layer')")
    seen, code = in_terminal(tmp_path, "-n", 2, "train.py")
    assert code == 1
    assert re.search(TABLE, seen.partition("no such layer")[0])
    assert not any(line.startswith("worker  ") for line in screen(seen))


@pytest.mark.parametrize(
    ("arguments", "env"), [((), {"TERM": "dumb"}), ((), {"TERM": ""}), (("--quiet",), {})]
)
def test_no_table_where_none_is_wanted(
    tmp_path: Path, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    write(tmp_path, "train.py", "import time; print('line'); time.sleep(0.6)")
    seen, code = in_terminal(tmp_path, *arguments, "-n", 1, "train.py", **env)
    assert code == 0 and "\x1b" not in seen


def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training')); time.sleep(1)")
    coloured, _ = in_terminal(tmp_path, "-n", 1, "train.py")
    plain, _ = in_terminal(tmp_path, "-n", 1, "train.py", NO_COLOR="1")
    assert re.search(r"\x1b\[3\dm", coloured)
    assert re.search(TABLE, plain) and not re.search(r"\x1b\[[\d;]*3\d[\d;]*m", plain)


def test_other_verbs_write_no_color(tmp_path: Path) -> None:
    for words in (("runs", "list"), ("check", "--worker", "a"), ("launch", "--help")):
        seen, _ = in_terminal(tmp_path, *words, command=TFMUSTER)
        assert seen and "\x1b" not in seen


@NEEDS_R
@pytest.mark.timeout(120)
def test_r_writes_no_color_where_none_is_wanted(tmp_path: Path) -> None:
    command = (
        "Rscript",
        "-e",
        "library(tfmuster); print(cluster_spec(worker = 'a:1')); cluster_spec(worker = 5)",
    )
    color = r"\x1b\[[\d;]*m"
    colored, _ = in_terminal(tmp_path, command=command)
    assert re.search(color, colored), colored
    plain, _ = in_terminal(tmp_path, command=command, NO_COLOR="1")
    assert "a:1" in plain and "can't be used" in plain and not re.search(color, plain), plain


def test_without_a_terminal_no_escape_code_is_written(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training')); print('line', flush=True); time.sleep(1)")
    launch = ("launch", "--all-output", "-n", 2, "train.py")
    done = tfmuster(*launch, cwd=tmp_path, TERM="xterm", FORCE_COLOR="1")
    assert sorted(done.stdout.splitlines()) == ["worker 0 | line", "worker 1 | line"]
    assert "\x1b" not in done.stdout + done.stderr


def test_of_many_workers_the_table_counts_those_without_room(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        SAY,
        "import os, pathlib",
        "say_state(State('training'))",
        "pathlib.Path(f'{os.getpid()}.begun').touch()",
        "while len(list(pathlib.Path().glob('*.begun'))) < 8:",
        "    time.sleep(0.1)",
        "time.sleep(2)",
    )
    seen, _ = in_terminal(tmp_path, "-n", 8, "train.py", rows=14)
    shown = visible(seen.replace("\r", "").replace("\n", " "))
    assert re.search(r"5 more +(\d starting, )?5 training", shown)
    assert not re.search(r"worker 7 +\S+ +training", shown)


def test_a_run_says_what_its_tasks_are_doing(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training', epoch=1, epochs=3)); time.sleep(10)")
    with subprocess.Popen(
        [*TFMUSTER, "launch", "-q", "-n", "2", "train.py"], cwd=tmp_path, env=environment()
    ) as process:
        wait_until(lambda: any((tmp_path / "runs").glob("*")) and len(read_states(only_run(tmp_path))) == 2)
        run = Run(only_run(tmp_path))
        wait_until(lambda: run.status()["state"] == "running")
        known = run.status()["tasks"]["worker 1"]
        assert known["doing"] == "training  epoch 1/3"
        progress = known["progress"]
        assert abs(progress.pop("time") - time.time()) < 20
        assert progress == {"phase": "training", "epoch": 1, "epochs": 3, "serves": False}
        as_json = tfmuster("runs", "show", "--json", cwd=tmp_path).stdout
        assert json.loads(as_json)["status"]["tasks"]["worker 0"]["progress"]["epoch"] == 1
        shown = tfmuster("runs", "show", cwd=tmp_path).stdout
        assert re.search(r"worker 0: +running, process \d+: training  epoch 1/3\n", shown)
        assert process.wait(20) == 0
    assert not {"doing", "progress"} & set(run.status()["tasks"]["worker 1"])


def test_a_script_that_knows_nothing_of_tfmuster_is_shown_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import keras, numpy as np",
        "model = keras.Sequential([keras.layers.Dense(1)])",
        "model.compile('sgd', 'mse')",
        "model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, epochs=2, verbose=0)",
        "model.predict(np.ones((8, 2)), verbose=0)",
    )
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stderr
    assert {task: state.text for task, state in read_states(only_run(tmp_path)).items()} == {
        "worker 0": "trained"
    }


def test_the_table_names_who_is_waited_for(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import time",
        "from tfmuster.rendezvous.task.join import join_cluster",
        "from tfmuster.cluster.tf_config import current_task",
        "task = current_task()",
        "time.sleep(4 * (task.index == 2))",
        "join_cluster(task)",
    )
    seen, code = in_terminal(tmp_path, "-n", 3, "train.py")
    shown = visible(seen.replace("\r", "").replace("\n", " "))
    assert code == 0
    assert re.search(r"worker 1 +\S+ +waiting for worker 2  \d s", shown)
    # From the first second on, the table moves.
    assert {"0", "1", "2"} <= set(re.findall(r"worker 2 +\S+ +starting  (\d) s", shown))
    assert read_states(only_run(tmp_path))["worker 2"].text == "connecting"


MEET = (
    "import time",
    "from tfmuster.cluster.tf_config import current_task",
    "from tfmuster.rendezvous.task.join import join_cluster",
)


def test_a_pipe_gets_a_line_each_ten_seconds_while_workers_start(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        *(SAY, *MEET),
        "task = current_task()",
        "import os, subprocess, sys",
        "show = [sys.executable, '-m', 'tfmuster', 'runs', 'show', os.environ['TFMUSTER_RUN_DIR']]",
        "if task.index == 1: time.sleep(12); subprocess.run(show, stdout=open('shown', 'w'))",
        "else: print('line')",
        "join_cluster(task)",
        "say_state(State('training')); time.sleep(11)",
    )
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path, limit=90)
    assert done.returncode == 0, done.stderr
    first, *later = [line for line in done.stderr.splitlines() if "starting for" in line]
    waits = r"worker 0: waiting for worker 1; worker 1: (starting|running)"
    assert re.fullmatch(rf"tfmuster: starting for 1\d s; {waits}", first)
    # Only before all are there.
    assert all("waiting for worker 1" in line for line in later) and len(later) <= 1
    assert "tfmuster: starting" not in done.stdout
    # Meanwhile, another terminal is told, too.
    assert re.search(r"^worker 0: .*: waiting for worker 1$", (tmp_path / "shown").read_text(), re.M)


def test_a_function_s_workers_tell_what_they_do_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def meet() -> None:
        import time

        from tfmuster.cluster.tf_config import current_task
        from tfmuster.rendezvous.task.join import join_cluster

        task = current_task()
        assert task is not None
        # Both are starting for longer than a second, and the second one for longer than the first.
        time.sleep(2 + 4 * task.index)
        join_cluster(task)

    monkeypatch.setattr("tfmuster.launcher.supervise.display._START_SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    launch(meet, workers=2)
    said = capfd.readouterr().err
    assert "s; worker 0: waiting for worker 1; worker 1: starting\n" in said
    assert re.search("starting for 1 s; worker 0, worker 1: starting\n", said)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_a_part_of_a_name_is_asked_about(tmp_path: Path, answer: str, code: int) -> None:
    write(tmp_path, "exercise.py", "")
    assert tfmuster("launch", "-n", 1, "exercise.py", cwd=tmp_path).returncode == 0
    run = only_run(tmp_path)
    mine, its = pty.openpty()
    asked = subprocess.Popen(
        [*TFMUSTER, "runs", "remove", "exerc"],
        cwd=tmp_path,
        env=environment(),
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(its)
    os.write(mine, answer.encode())
    said, _ = asked.communicate(timeout=20)
    os.close(mine)
    assert f"'exerc', a part of 1 name. Do you mean {run}? [y/N]" in said
    assert asked.returncode == code and run.exists() == (code == 2)


def test_a_reader_that_leaves_does_not_end_the_job(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import time", "for i in range(99): print(i, flush=True); time.sleep(0.01)")
    reader = ["sh", "-c", '"$@" | head -1', "sh", *TFMUSTER]
    done = subprocess.run(
        [*reader, "launch", "-n", "1", "train.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == "worker 0 | 0\n" and "the job continues, and its run keeps all of it" in done.stderr
    assert "tfmuster: done in" in done.stderr and Run(only_run(tmp_path)).logs()["worker 0"].endswith("98\n")
