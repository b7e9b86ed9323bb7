"""A job that gets a shutdown signal writes a checkpoint, ends, and is resumed at that step."""

from __future__ import annotations

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.clock import in_time
from support.launching import environment, nothing_left, python, start_tfmuster, tfmuster, wait_until, write
from support.paths import PROGRAMS, ROOT
from tfmuster.errors import LaunchError, TfmusterError
from tfmuster.launcher import launch
from tfmuster.options.table import Control
from tfmuster.tracking.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PROGRAM = PROGRAMS / "preempted.py"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path) -> Iterator[None]:
    yield
    nothing_left(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Train once for each kind of data, undisturbed, and return the final values."""
    known: dict[tuple[str, int], dict[str, np.ndarray]] = {}

    def final_of(kind: str, workers: int) -> dict[str, np.ndarray]:
        if (kind, workers) not in known:
            folder = tmp_path_factory.mktemp(kind)
            done = tfmuster("launch", "-n", workers, "--seed", 5, PROGRAM, ".", kind, 10**6, cwd=folder)
            assert done.returncode == 0, done.stderr
            known[kind, workers] = final(folder)
        return known[kind, workers]

    return final_of


def final(folder: Path, worker: int = 0) -> dict[str, np.ndarray]:
    with np.load(folder / f"final-{worker}.npz") as file:
        return dict(file)


def started(
    folder: Path, kind: str, step: int, *more: object, workers: int = 2, **env: str
) -> tuple[subprocess.Popen[str], Run]:
    """Launch the program, and wait until it is slow."""
    launcher = start_tfmuster(
        *("launch", "-n", workers, "--seed", 5, "--run-dir", "run", PROGRAM, ".", kind, step, *more),
        cwd=folder,
        **env,
    )
    wait_until(lambda: (folder / f"reached-{workers - 1}").exists() or launcher.poll() is not None, 60)
    assert launcher.poll() is None, launcher.stdout and launcher.stdout.read()
    return launcher, Run(folder / "run")


def pid_of(run: Run, task: str) -> int:
    return int(run.status()["tasks"][task]["pid"])


def saved(launcher: subprocess.Popen[str], run: Run, number: int) -> str:
    """The launcher's output, after the run was saved because of a signal."""
    said, _ = launcher.communicate(timeout=60)
    assert launcher.returncode == 128 + number, said
    status = run.status()
    assert (status["state"], status["signal"], run.error()) == ("preempted", number, None), said
    assert {task["exit_code"] for task in status["tasks"].values()} == {128 + number}
    assert {task["state"] for task in status["tasks"].values()} == {"preempted"}
    return said


#: What gets which signal, the kind of training, and the number of workers.
CASES = [
    ("launcher", signal.SIGUSR1, "executions", 2),
    ("launcher", signal.SIGHUP, "epochs", 2),
    ("worker 0", signal.SIGUSR1, "generator", 2),
    ("worker 0", signal.SIGTERM, "numpy", 1),
    ("worker 3", signal.SIGTERM, "executions", 4),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_signal_writes_a_checkpoint_and_the_job_resumes_there(
    tmp_path: Path, undisturbed: Any, case: tuple[str, signal.Signals, str, int]
) -> None:
    who, number, kind, workers = case
    launcher, run = started(tmp_path, kind, 4, workers=workers)
    begun = time.monotonic()
    os.kill(launcher.pid if who == "launcher" else pid_of(run, who), number)
    said = saved(launcher, run, number)
    assert in_time(begun, 20)
    assert "tfmuster: preempted; resume it: tfmuster runs resume run" in said
    (checkpoint, *_) = sorted((run.path / "checkpoints").glob("*.checkpoint"), reverse=True)
    assert 4 <= int(checkpoint.stem) < 40
    (tmp_path / "fast").touch()
    done = tfmuster("runs", "resume", "run", "--runs", ".", cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stderr
    assert f"resumes after step {int(checkpoint.stem)}" in done.stdout
    assert (run.status()["state"], run.info()["resumed"]) == ("done", 1)
    expected = undisturbed(kind, workers)
    for worker in range(workers):
        for name, value in final(tmp_path, worker).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"worker {worker}: {name}")


def test_a_session_saves_and_resumes_a_run(tmp_path: Path, undisturbed: Any) -> None:
    launcher, run = started(tmp_path, "numpy", 12)
    assert run.stop(save=True)["state"] == "preempted"
    assert "another session asked; the workers write a checkpoint" in saved(launcher, run, signal.SIGTERM)
    with pytest.raises(TfmusterError, match="did not finish"):
        run.check()
    (tmp_path / "fast").touch()
    assert run.resume().wait(60)["state"] == "done"
    for name, value in final(tmp_path).items():
        np.testing.assert_array_equal(value, undisturbed("numpy", 2)[name], err_msg=name)
    with pytest.raises(LaunchError, match=r"(?s)can't be resumed.*the program of run has finished") as caught:
        run.resume()
    assert caught.value.fields["reason"] == "resume"


def test_a_run_is_resumed_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another directory, and without the variables that the launch had."""
    write(
        tmp_path,
        "train.py",
        "import os, pathlib",
        "failed = pathlib.Path('failed')",
        "if not failed.exists():",
        "    raise SystemExit(failed.touch() or 'fails at first')",
        "print(os.environ['COLOR'], os.environ['TFMUSTER_STALL_TIMEOUT'], os.environ['TFMUSTER_TOKEN'])",
    )
    token = "0123456789" * 4
    with monkeypatch.context() as before:
        before.chdir(tmp_path)
        before.setenv("TFMUSTER_STALL_TIMEOUT", "77")
        before.setenv("TFMUSTER_TOKEN", token)
        first = launch(
            "train.py",
            workers=1,
            run_dir="run",
            control=Control(env={"COLOR": "blue"}),
            wait=False,
            quiet=True,
        )
        run = Run(tmp_path / "run")
        assert first.wait(30)["state"] == "failed"
    assert token not in (run.path / "resume.json").read_text()
    assert (run.path / "resume.json").stat().st_mode & 0o777 == 0o600
    assert run.resume().wait(30)["state"] == "done"
    (line,) = (run.path / "logs" / "worker-0.log").read_text().splitlines()[-1:]
    assert line.startswith("blue 77 ") and token not in line


def test_a_secret_of_the_environment_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "train.py", "raise SystemExit('fails')")
    run = launch(
        "train.py",
        workers=1,
        run_dir="run",
        control=Control(env={"API_KEY": "abc-123"}),
        wait=False,
        quiet=True,
    )
    assert run.wait(30)["state"] == "failed"
    assert "abc-123" not in (run.path / "resume.json").read_text()
    with pytest.raises(LaunchError, match=r"(?s)can't be resumed by its name.*its environment has a secret"):
        run.resume()


def test_no_file_of_a_run_has_a_secret_of_its_command(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "raise SystemExit('fails')")
    options = ["--env", "DATABASE_URL=postgres://me:abc-123@host/db", "--env=PGPASSWORD=abc-123"]
    options += ["--notice-command", "curl -H 'Authorization: Bearer abc-123' http://127.0.0.1:1"]
    program = ["train.py", "--set=HF_TOKEN=abc-123", '{"api_key": "abc-123"}', "https://x/?sig=abc-123"]
    done = tfmuster("launch", "-n", 1, "--run-dir", "run", *options, "--", *program, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"run.json", "resume.json", "script"} <= {path.name for path in files}
    assert [path for path in files if b"abc-123" in path.read_bytes()] == []
    # What shows the command is its owner's.
    assert (tmp_path / "run" / "tfruns.d").stat().st_mode & 0o777 == 0o700


def test_a_session_can_launch_after_a_run_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def stop() -> None:
        wait_until(lambda: (tmp_path / "reached-0").exists(), 60)
        Run("run").stop(save=True)

    stopping = threading.Thread(target=stop)
    stopping.start()
    run = launch(PROGRAM, ".", "numpy", 4, workers=1, run_dir="run", quiet=True)
    stopping.join()
    assert run.status()["state"] == "preempted"
    (tmp_path / "fast").touch()
    run = launch(PROGRAM, ".", "numpy", 4, workers=1, run_dir="next", quiet=True)
    assert run.status()["state"] == "done"


def test_the_same_command_resumes_and_another_one_is_refused(tmp_path: Path, undisturbed: Any) -> None:
    launcher, run = started(tmp_path, "numpy", 12)
    launcher.terminate()
    saved(launcher, run, signal.SIGTERM)
    (tmp_path / "fast").touch()
    other = tfmuster("launch", "--run-dir", "run", PROGRAM, ".", "numpy", 13, cwd=tmp_path)
    assert other.returncode == 2
    assert "already holds a run" in other.stderr and "tfmuster runs resume" in other.stderr
    # Its seed is that of the run, and so the program draws the same numbers.
    again = tfmuster("launch", "--run-dir", "run", PROGRAM, ".", "numpy", 12, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    for name, value in final(tmp_path).items():
        np.testing.assert_array_equal(value, undisturbed("numpy", 2)[name], err_msg=name)


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    launcher, run = started(tmp_path, "numpy", 4, 30)
    launcher.terminate()
    time.sleep(1)
    assert launcher.poll() is None
    begun = time.monotonic()
    launcher.terminate()
    said, _ = launcher.communicate(timeout=30)
    assert in_time(begun, 4)
    assert (launcher.returncode, run.status()["state"]) == (130, "interrupted"), said


def test_one_who_does_not_get_there_in_time_ends(tmp_path: Path) -> None:
    launcher, run = started(tmp_path, "numpy", 4, 60, TFMUSTER_GRACE="1.5")
    begun = time.monotonic()
    launcher.terminate()
    said, _ = launcher.communicate(timeout=30)
    assert in_time(begun, 8)
    assert launcher.returncode in (1, 130), said
    assert "wrote no checkpoint within 1.5 s" in said
    assert run.status()["state"] in ("failed", "interrupted")


def test_stop_ends_a_training_without_saving(tmp_path: Path) -> None:
    launcher, run = started(tmp_path, "numpy", 4)
    begun = time.monotonic()
    assert run.stop()["state"] == "interrupted"
    assert in_time(begun, 5)
    launcher.communicate(timeout=30)
    assert not list((run.path / "checkpoints").glob("*.checkpoint"))


@pytest.mark.timed
def test_a_training_without_the_callback_ends_at_once(tmp_path: Path) -> None:
    """TensorFlow catches SIGTERM in a cluster and continues; here it ends the worker."""
    write(
        tmp_path,
        "train.py",
        "import time, pathlib, tfmuster",
        "strategy = tfmuster.strategy('multi_worker_mirrored')",
        "pathlib.Path(f'reached-{tfmuster.current_task().index}').touch()",
        "time.sleep(60)",
    )
    launcher = start_tfmuster("launch", "-n", 2, "--run-dir", "run", "train.py", cwd=tmp_path)
    wait_until(lambda: (tmp_path / "reached-0").exists() and (tmp_path / "reached-1").exists(), 60)
    with pytest.raises(TfmusterError, match="can't be saved now"):
        Run(tmp_path / "run").stop(save=True)
    begun = time.monotonic()
    launcher.terminate()
    launcher.communicate(timeout=30)
    assert in_time(begun, 1.5)
    assert {task["exit_code"] for task in Run(tmp_path / "run").status()["tasks"].values()} == {-15}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    disk = tmp_path / "run" / "checkpoints"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    try:
        launcher, _ = started(tmp_path, "epochs", 10)
        wait_until(lambda: list(disk.glob("*.checkpoint")))
        (before,) = disk.glob("*.checkpoint")
        content = before.read_bytes()
        (disk / "filling").write_bytes(b"x" * (4096 * 12))
        launcher.terminate()
        said, _ = launcher.communicate(timeout=60)
        assert launcher.returncode == 1, said
        assert "The checkpoint could not be written; the earlier ones are intact." in said
        assert before.read_bytes() == content
    finally:
        subprocess.run(["umount", disk], check=True)


#: A change of the program, how the error begins, and what it has found.
CHANGES = [
    (
        "(16, activation",
        "(17, activation",
        "The checkpoint belongs to another model",
        "of shape (12, 16), here",
    ),
    (
        '"batch_size": 20',
        '"batch_size": 25',
        "A training resumes exactly only with the data",
        "batch size 20, here 25",
    ),
    (
        "default_rng(0)",
        "default_rng(1)",
        "A training resumes exactly only with the data",
        "numbers in the first rows",
    ),
    (
        "import keras",
        "import keras, tensorflow; tensorflow.__version__ = '1.0'",
        "A training resumes exactly only with the TensorFlow",
        "here 1.0",
    ),
]


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    """The checkpoints stay as they are."""
    text = PROGRAM.read_text()
    write(tmp_path, "train.py", text)
    launcher = start_tfmuster(
        *("launch", "-n", 1, "--seed", 5, "--run-dir", "run", "train.py", ".", "numpy", 12), cwd=tmp_path
    )
    wait_until(lambda: (tmp_path / "reached-0").exists(), 60)
    launcher.terminate()
    run = Run(tmp_path / "run")
    saved(launcher, run, signal.SIGTERM)
    kept = {path: path.read_bytes() for path in (run.path / "checkpoints").glob("*.checkpoint")}
    for old, new, message, found in CHANGES:
        assert old in text
        write(tmp_path, "train.py", text.replace(old, new))
        done = tfmuster("runs", "resume", "run", "--runs", ".", cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        assert message in done.stderr and found in done.stderr, done.stderr
        assert {path: path.read_bytes() for path in kept} == kept


def test_a_program_that_knows_nothing_of_it_is_saved_in_its_second_fit(tmp_path: Path) -> None:
    """Under --distribute each fit has a folder of its own. The first one is trained again."""
    write(
        tmp_path,
        "train.py",
        "import os, time, pathlib, numpy as np, keras",
        "class Slow(keras.callbacks.Callback):",
        "    def on_train_batch_end(self, batch, logs=None):",
        "        if not pathlib.Path('fast').exists():",
        "            pathlib.Path('reached').touch(); time.sleep(0.2)",
        "rng = np.random.default_rng(0)",
        "x, y = rng.random((64, 3)), rng.random((64, 2))",
        "model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])",
        "model.compile('adam', 'mse')",
        "head = model.fit(x, y, batch_size=8, epochs=2, verbose=0)",
        "model.compile(keras.optimizers.Adam(0.1), 'mse')",
        "tail = model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Slow()])",
        "if os.environ['TFMUSTER_IS_CHIEF'] == '1':",
        "    losses = {'head': head.history['loss'], 'tail': tail.history['loss']}",
        "    np.savez('final.npz', *model.get_weights(), **losses)",
    )
    command = ("launch", "-n", 2, "--seed", 3, "--distribute", "--run-dir", "run", "train.py")
    launcher = start_tfmuster(*command, cwd=tmp_path)
    wait_until((tmp_path / "reached").exists, 60)
    launcher.terminate()
    run = Run(tmp_path / "run")
    saved(launcher, run, signal.SIGTERM)
    assert [path.parent.name for path in run.path.glob("checkpoints*/*.checkpoint")] == ["checkpoints-2"]
    (tmp_path / "fast").touch()
    done = tfmuster("runs", "resume", "run", "--runs", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "final.npz") as file:
        resumed = dict(file)
    done = tfmuster(*command[:-2], "undisturbed", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "final.npz") as file:
        for name, value in resumed.items():
            np.testing.assert_array_equal(value, file[name], err_msg=name)


def test_a_built_in_training_is_saved(tmp_path: Path) -> None:
    command = ["--", "tfmuster", "train", "mnist", "--dataset", "synthetic", "--epochs", 40]
    command += ["--recipe", "document"]
    launcher = start_tfmuster("launch", "-n", 2, "--run-dir", "run", *command, cwd=tmp_path)
    run = Run(tmp_path / "run")
    wait_until(lambda: run.history().get("loss"), 60)
    launcher.terminate()
    saved(launcher, run, signal.SIGTERM)
    before = len(run.history()["loss"])
    assert 1 <= before < 40
    done = tfmuster("runs", "resume", "run", "--runs", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(run.history()["loss"]) == 40
    assert "resumes after step" in done.stdout


R_PROGRAM = """
library(tfmuster)
strategy <- strategy("multi_worker_mirrored")
keras <- reticulate::import("keras")
x <- matrix(seq(0, 1, length.out = 300), 100)
y <- matrix(seq(1, 0, length.out = 200), 100)
with(strategy$scope(), {
  model <- keras$Sequential(list(keras$Input(list(3L)), keras$layers$Dense(2L)))
  model$compile("adam", "mse", steps_per_execution = 1L)
})
slow <- keras$callbacks$LambdaCallback(on_train_batch_end = function(batch, logs) {
  if (!file.exists("fast")) {
    file.create("reached")
    Sys.sleep(0.2)
  }
})
history <- model$fit(x, y, batch_size = 10L, epochs = 2L, verbose = 0L, callbacks = list(
  callback_checkpoint(every = NULL), slow
))
cat("trained", as.integer(model$optimizer$iterations$numpy()), "\n")
"""


def test_a_program_in_r_is_saved(tmp_path: Path) -> None:
    write(tmp_path, "train.R", R_PROGRAM)
    launcher = start_tfmuster(
        "launch", "-n", 2, "--run-dir", "run", "train.R", cwd=tmp_path, TMPDIR=str(tmp_path)
    )
    wait_until((tmp_path / "reached").exists, 90)
    launcher.terminate()
    saved(launcher, Run(tmp_path / "run"), signal.SIGTERM)
    # R has removed its temporary folders.
    assert not list(tmp_path.glob("Rtmp*"))
    (tmp_path / "fast").touch()
    done = tfmuster("runs", "resume", "run", "--runs", ".", cwd=tmp_path, limit=90)
    assert done.returncode == 0, done.stderr
    assert "resumes after step" in done.stdout
    assert all("trained 20" in text for text in Run(tmp_path / "run").logs().values())


class Metadata(http.server.BaseHTTPRequestHandler):
    """Answers as the metadata of an EC2 instance: 404 until it is to be reclaimed."""

    taken = False

    def do_PUT(self) -> None:
        self._say(200, b"a-token")

    def do_GET(self) -> None:
        known = self.headers["X-aws-ec2-metadata-token"] == "a-token"
        self._say(200 if known and Metadata.taken else 404, b'{"action": "terminate"}')

    def _say(self, code: int, text: bytes) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_machine_that_will_be_taken_away(tmp_path: Path) -> None:
    """With the command of docs/reference/launching.md, asked of a server here."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = (ROOT / "docs" / "reference" / "launching.md").read_text()
        (command,) = re.findall(r"--notice-command '(token.*?)'$", text, re.DOTALL | re.MULTILINE)
        command = command.replace("169.254.169.254", f"127.0.0.1:{server.server_port}")
        launcher = start_tfmuster(
            *("launch", "-n", 2, "--run-dir", "run", "--notice-command", command),
            *(PROGRAM, ".", "numpy", 4),
            cwd=tmp_path,
        )
        wait_until(lambda: (tmp_path / "reached-1").exists(), 60)
        time.sleep(1)
        assert launcher.poll() is None
        Metadata.taken = True
        saved(launcher, Run(tmp_path / "run"), signal.SIGTERM)
        server.shutdown()


def test_no_time_to_save_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "")
    done = tfmuster("launch", "-n", 2, "--grace", 0, "train.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "--grace" in done.stderr


def test_a_program_of_one_process_is_saved_too(tmp_path: Path) -> None:
    """Outside of a job, a training with the callback resumes from its own folder."""
    program = write(
        tmp_path,
        "train.py",
        "import sys, time, pathlib, numpy as np, keras, tfmuster",
        "class Slow(keras.callbacks.Callback):",
        "    def on_train_batch_end(self, batch, logs=None):",
        "        pathlib.Path('reached').touch(); time.sleep(float(sys.argv[1]))",
        "keras.utils.set_random_seed(1)",
        "model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])",
        "model.compile('adam', 'mse')",
        "callbacks = [tfmuster.checkpoint_callback('here', every=None), Slow()]",
        "model.fit(np.ones((100, 3)), np.ones((100, 2)), batch_size=4, verbose=0, callbacks=callbacks)",
        "print(int(model.optimizer.iterations))",
    )
    process = subprocess.Popen([sys.executable, program, "0.2"], cwd=tmp_path, env=environment())
    wait_until((tmp_path / "reached").exists, 60)
    process.terminate()
    assert process.wait(timeout=30) == 143
    done = python(program, 0, cwd=tmp_path, limit=100)
    assert done.returncode == 0 and done.stdout.split()[-1] == "25", done.stderr
