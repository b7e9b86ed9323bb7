"""TensorBoard on the logs of a run, and what is said where it has none."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import psutil
import pytest

from support.launching import only_run, tfmuster, write
from tfmuster.errors import TfmusterError
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.tensorboard import start_tensorboard, tensorboard_callback

pytest.importorskip("tensorboard")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "run.json").write_text('{"host": "elsewhere", "command": ["train.py"]}')
    return Run(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_answers_on_loopback_until_its_process_ends(run: Run) -> None:
    (run.path / "tensorboard").mkdir()
    board = start_tensorboard(run)
    try:
        with urllib.request.urlopen(board["url"], timeout=20) as answer:
            assert b"TensorBoard" in answer.read()
        # No other interface: whoever reaches it reads the logs.
        listening = {
            each.laddr.ip for each in psutil.Process(board["pid"]).net_connections() if not each.raddr
        }
        assert listening == {"127.0.0.1"}
    finally:
        psutil.Process(board["pid"]).kill()


def test_a_run_without_logs_is_told_what_writes_them(run: Run) -> None:
    with pytest.raises(TfmusterError, match="has no TensorBoard logs") as caught:
        start_tensorboard(run)
    assert "tensorboard_callback()" in str(caught.value.fix)


@pytest.mark.timeout(60)
def test_a_port_that_is_taken_is_an_error_with_the_command(run: Run) -> None:
    (run.path / "tensorboard").mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(TfmusterError, match="did not start") as caught:
            start_tensorboard(run, port=port)
    assert f"--port {port}" in str(caught.value.fix)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_each_fit_of_a_program_has_its_own_curves(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import keras, numpy as np, tfmuster",
        "for _ in range(3):",
        "    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])",
        "    model.compile('sgd', 'mse')",
        "    x = np.ones((8, 2))",
        "    model.fit(x, x, validation_data=(x, x), callbacks=[tfmuster.tensorboard_callback()])",
        "tfmuster.tensorboard_callback('own')",
        "assert tfmuster.tensorboard_callback().log_dir.endswith('fit-4')",
    )
    done = tfmuster("launch", "-n", 1, "train.py", cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = only_run(tmp_path) / "tensorboard"
    folders = {str(file.parent.relative_to(logs)) for file in logs.rglob("events.*")}
    of_each = ("train", "validation")
    assert folders == {*of_each, *(f"fit-{number}/{part}" for number in (2, 3) for part in of_each)}


def test_outside_of_a_job_the_callback_needs_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFMUSTER_RUN_DIR", raising=False)
    with pytest.raises(TfmusterError, match="need a folder"):
        tensorboard_callback()
