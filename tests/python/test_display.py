from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from launching import TFMUSTER, environment, nothing_left, only_run, tfmuster, wait_until, write
from tfmuster.launch.supervise.display import progress_snapshot
from tfmuster.runs.run import Run
from tfmuster.runs.states import State, read_serving, read_states, say_state, say_waiting
from tfmuster.runs.terminal_text import visible
from tfmuster.worker.progress import progress_callback

SAY = "import os, time; from tfmuster.runs.states import State, say_state"
#: How a terminal is told to hide its cursor, to show another screen, and the like.
MODE = "\x1b[?"
TABLE = r"worker\b.*host\b.*state\b"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path):
    yield
    nothing_left(tmp_path)


def in_terminal(
    tmp_path: Path, *arguments: object, columns: int = 100, rows: int = 40, kill_at: bytes = b"", **env: str
) -> tuple[str, int]:
    """What a terminal gets when a launch writes to it, and the exit code.

    With `kill_at`, the launcher is killed as soon as the terminal has got that.
    """
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [*TFMUSTER, "launch", *map(str, arguments)],
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
    seen, code = in_terminal(tmp_path, "-n", 2, "train.py")
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


def test_without_a_terminal_no_escape_code_is_written(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training')); print('line', flush=True); time.sleep(1)")
    done = tfmuster("launch", "-n", 2, "train.py", cwd=tmp_path, TERM="xterm", FORCE_COLOR="1")
    assert sorted(done.stdout.splitlines()) == ["worker 0 | line", "worker 1 | line"]
    assert "\x1b" not in done.stdout + done.stderr


def test_of_many_workers_the_table_counts_those_without_room(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training')); time.sleep(4)")
    seen, _ = in_terminal(tmp_path, "-n", 8, "train.py", rows=14)
    shown = visible(seen.replace("\r", "").replace("\n", " "))
    assert re.search(r"5 more +(\d starting, )?5 training", shown)
    assert not re.search(r"worker 7 +\S+ +training", shown)


def test_a_run_says_what_its_tasks_are_doing(tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "say_state(State('training', epoch=1, epochs=3)); time.sleep(3)")
    with subprocess.Popen(
        [*TFMUSTER, "launch", "-q", "-n", "2", "train.py"], cwd=tmp_path, env=environment()
    ) as process:
        wait_until(lambda: (tmp_path / "runs").exists() and len(read_states(only_run(tmp_path))) == 2)
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


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFMUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv(
        "TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    )
    return tmp_path


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (
            {"text": "…", "waiting": ["worker 0"], "address": "a:1", "reason": "no answer yet"},
            "waiting for worker 0, the chief, at a:1: no answer yet",
        ),
        ({"text": "…", "waiting": ["worker 2", "worker 3"]}, "waiting for worker 2, worker 3"),
        (
            {"text": "…", "waiting": [f"worker {i}" for i in range(10)]},
            f"waiting for {', '.join(f'worker {i}' for i in range(8))} and 2 more",
        ),
        ({"text": "all 4 tasks are here", "waiting": []}, "starting"),
    ],
)
def test_who_is_waited_for(task: Path, progress: dict, words: str) -> None:
    say_waiting(progress)
    (state,) = read_states(task).values()
    assert state.text == words == json.loads((task / "states" / "worker-1.json").read_text())["text"]
    assert (state.phase, list(state.waiting)) == (words.split(maxsplit=1)[0], progress["waiting"])


def test_a_state_is_read_as_it_was_written(task: Path) -> None:
    known = State(
        "training",
        epoch=2,
        epochs=5,
        step=117,
        steps=400,
        metrics={"accuracy": 0.5, "loss": float("inf"), "auc": 0.25},
        steps_per_second=80.0,
        images_per_second=10_240.0,
    )
    before = time.time()
    say_state(known)
    written = json.loads((task / "states" / "worker-1.json").read_text())
    assert before <= written.pop("time") <= time.time()
    assert written == {
        "text": "training  epoch 2/5  step 117/400  loss inf  accuracy 0.5000  10,240 images/s",
        "phase": "training",
        "epoch": 2,
        "epochs": 5,
        "step": 117,
        "steps": 400,
        "metrics": {"accuracy": 0.5, "loss": "inf", "auc": 0.25},
        "steps_per_second": 80.0,
        "images_per_second": 10_240.0,
        "serves": False,
    }
    (state,) = read_states(task).values()
    assert dataclasses.replace(state, time=None) == known
    assert state.text == written["text"] and state.time is not None
    say_state(State("training", epoch=1, step=1, metrics={"loss": float("nan")}))
    (state,) = read_states(task).values()
    assert state.text == "training  epoch 1  step 1  loss nan"
    assert state.to_dict()["metrics"]["loss"] != state.to_dict()["metrics"]["loss"]


def test_who_serves_is_read_from_the_fields(task: Path) -> None:
    say_state(State("serving"))
    assert read_serving(task) == set()
    say_state(State("serving", serves=True))
    assert read_serving(task) == {"worker 1"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"text": "training"}', '{"phase": "training", "step": "x"}', '{"phase": "t", "metrics": 1}'],
)
def test_what_is_no_state_says_nothing(task: Path, content: str) -> None:
    (task / "states").mkdir()
    (task / "states" / "worker-1.json").write_text(content)
    assert read_states(task) == {} and read_serving(task) == set()


@pytest.mark.parametrize(
    ("state", "text", "beside_bar"),
    [
        (
            State(
                "training", epoch=1, epochs=2, step=3, steps=10, metrics={"loss": 1.5}, steps_per_second=7.25
            ),
            "training  epoch 1/2  step 3/10  loss 1.5000  7.2 steps/s",
            "epoch 1/2  loss 1.5000  7.2 steps/s",
        ),
        (State("training"), "training", "training"),
        (State("stopped"), "stopped by a signal", "stopped by a signal"),
        (State("waiting", waiting=("worker 2",)), "waiting for worker 2", "waiting for worker 2"),
        (State("tracing"), "tracing", "tracing"),
    ],
)
def test_a_state_in_words(state: State, text: str, beside_bar: str) -> None:
    assert (state.text, state.text_beside_bar) == (text, beside_bar)


def test_a_progress_bar_gets_the_fields_of_one_task(tmp_path: Path) -> None:
    training = State("training", epoch=2, epochs=3, step=4, steps=9, metrics={"loss": 2.0})
    waiting = State("waiting", waiting=("worker 1",))

    def snapshot(*states: State) -> tuple:
        found = progress_snapshot([(f"worker {i}", "h", each) for i, each in enumerate(states)], tmp_path)
        assert found["epoch_lines"] == []
        names = ("phase", "text", "text_beside_bar", "epoch", "epochs", "step", "steps")
        return tuple(found[name] for name in names)

    shown = ("training", "training  epoch 2/3  step 4/9  loss 2.0000", "epoch 2/3  loss 2.0000", 2, 3, 4, 9)
    nowhere = (None, None, None, None)
    assert snapshot(State("done"), training) == shown
    text = "waiting for worker 1"
    assert snapshot(State("done"), training, waiting) == ("waiting", text, text, *nowhere)
    assert snapshot(State("stopped")) == ("stopped", "stopped by a signal", "stopped by a signal", *nowhere)
    assert snapshot() == ("", "", "", *nowhere)


def test_nothing_is_written_outside_a_job_or_where_it_can_not_be(
    task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFMUSTER_RUN_DIR", str(task / "gone"))
    say_state(State("training"))
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": []}}')
    say_state(State("training"))
    monkeypatch.delenv("TFMUSTER_RUN_DIR")
    say_state(State("training"))
    assert progress_callback() == [] and list(task.iterdir()) == []


@pytest.mark.tensorflow
def test_the_callback_writes_at_most_once_a_second(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[State] = []
    monkeypatch.setattr("tfmuster.worker.progress.say_state", said.append)
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    (callback,) = progress_callback(images_per_step=128)
    callback.set_params({"epochs": 5, "steps": 1000})
    callback.on_train_begin()
    callback.on_epoch_begin(1)
    for step in range(20):
        callback.on_train_batch_end(step, {"loss": 2.0})
        clock += 0.125
    assert [state.text for state in said] == [
        "tracing",
        "training  epoch 2/5  step 1/1000  loss 2.0000",
        "training  epoch 2/5  step 9/1000  loss 2.0000  1,024 images/s",
        "training  epoch 2/5  step 17/1000  loss 2.0000  1,024 images/s",
    ]
    assert said[1:3] == [
        State("training", epoch=2, epochs=5, step=1, steps=1000, metrics={"loss": 2.0}),
        State(
            "training",
            epoch=2,
            epochs=5,
            step=9,
            steps=1000,
            metrics={"loss": 2.0},
            steps_per_second=8.0,
            images_per_second=1024.0,
        ),
    ]


@pytest.mark.cluster
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
        "from tfmuster.rendezvous.join import join_cluster",
        "from tfmuster.cluster.tf_config import current_task",
        "task = current_task()",
        "time.sleep(4 * (task.index == 2))",
        "join_cluster(task)",
    )
    seen, code = in_terminal(tmp_path, "-n", 3, "train.py")
    shown = visible(seen.replace("\r", "").replace("\n", " "))
    assert code == 0
    assert re.search(r"worker 1 +\S+ +waiting for worker 2 ", shown)
    assert read_states(only_run(tmp_path))["worker 2"].text == "starting"
