"""Spare processes: a restart has workers that have imported TensorFlow before the failure."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.launching import (
    nothing_left,
    processes_in,
    read_json,
    start_tfmuster,
    tfmuster,
    wait_until,
    write,
)
from support.paths import PROGRAMS
from support.r import NEEDS_R
from support.spares import OF_A_JOB, spares_in

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path) -> Iterator[None]:
    yield
    nothing_left(tmp_path, 5)


def start(folder: Path, *options: object) -> subprocess.Popen[str]:
    program = (PROGRAMS / "starting_again.py", "now")
    return start_tfmuster("launch", "-n", 2, "--max-restarts", 1, *options, *program, cwd=folder)


def train(folder: Path, *options: object) -> dict[str, Any]:
    """Launch the program with one failure. Return what the second worker's second attempt sees."""
    folder.mkdir()
    begun = start_tfmuster(
        *(
            "launch",
            "-n",
            2,
            "--max-restarts",
            1,
            "--seed",
            3,
            *options,
            PROGRAMS / "starting_again.py",
            "now",
        ),
        cwd=folder,
    )
    if "--warm" in options:
        wait_until(lambda: len(spares_in(folder)) == 2, 60)
    (folder / "now").touch()
    said, _ = begun.communicate(timeout=100)
    assert begun.returncode == 0, said
    assert "restart 1 of 1" in said
    return read_json(folder / "1-1.json")


def test_a_restart_continues_in_spare_processes_and_nothing_else_differs(tmp_path: Path) -> None:
    cold, warm = train(tmp_path / "cold"), train(tmp_path / "warm", "--warm")
    assert warm.pop("imported") and not cold.pop("imported")
    for sees in (cold, warm):
        assert set(sees["environment"]) >= OF_A_JOB
        sees["environment"] = {
            name: value.replace(str(tmp_path / "warm"), str(tmp_path / "cold"))
            for name, value in sees["environment"].items()
            if name not in OF_A_JOB
        }
        sees["folder"] = Path(sees["folder"]).parent.name
    for name, value in cold.items():
        assert warm[name] == value, name


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_spare_processes_end_with_their_launcher(tmp_path: Path, how: signal.Signals) -> None:
    begun = start(tmp_path, "--warm")
    wait_until(lambda: len(spares_in(tmp_path)) == 2, 60)
    begun.send_signal(how)
    begun.communicate(timeout=30)
    wait_until(lambda: not processes_in(tmp_path), 10)


def test_a_spare_process_that_has_ended_is_not_missed(tmp_path: Path) -> None:
    begun = start(tmp_path, "--warm")
    wait_until(lambda: len(spares_in(tmp_path)) == 2, 60)
    lost = spares_in(tmp_path)[0]
    lost.kill()
    wait_until(lambda: len(spares_in(tmp_path)) == 1)
    (tmp_path / "now").touch()
    said, _ = begun.communicate(timeout=100)
    assert begun.returncode == 0, said
    assert (tmp_path / "1-0.json").exists() and (tmp_path / "1-1.json").exists()


@NEEDS_R
def test_an_r_script_continues_in_a_spare_r(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.R",
        "attempt <- Sys.getenv('TFMUSTER_RESTART')",
        "imported <- 'reticulate' %in% loadedNamespaces()",
        "tf <- reticulate::import('tensorflow')",
        "strategy <- tf$distribute$MultiWorkerMirroredStrategy()",
        "index <- strategy$cluster_resolver$task_id",
        "keras <- reticulate::import('keras')",
        "tfmuster <- reticulate::import('tfmuster')",
        "x <- matrix(seq(0, 1, length.out = 640), 80)",
        "with(strategy$scope(), {",
        "  model <- keras$Sequential(list(keras$Input(reticulate::tuple(8L)), keras$layers$Dense(1L)))",
        "  model$compile('sgd', 'mse')",
        "})",
        "fails <- function(epoch, logs) if (attempt == '0' && epoch == 1 && index == 1) {",
        "  while (!file.exists('now')) Sys.sleep(0.05)",
        "  tools::pskill(Sys.getpid(), 9)",
        "}",
        "failing <- keras$callbacks$LambdaCallback(on_epoch_begin = fails)",
        "callbacks <- list(tfmuster$checkpoint_callback(), failing)",
        "model$fit(x, x[, 1, drop = FALSE], epochs = 3L, verbose = 0L, callbacks = callbacks)",
        "attempt <- Sys.getenv('TFMUSTER_RESTART')",
        "out <- list(imported, runif(1), commandArgs(TRUE), attempt, readLines(file('stdin')))",
        "out <- jsonlite::toJSON(out, auto_unbox = TRUE, digits = NA)",
        "writeLines(out, paste0(attempt, '-', index, '.json'))",
    )
    begun = start_tfmuster(
        *("launch", "-n", 2, "--max-restarts", 1, "--warm", "--seed", 3, "train.R", "a", "b c"), cwd=tmp_path
    )
    wait_until(lambda: len(spares_in(tmp_path)) == 2, 60)
    (tmp_path / "now").touch()
    said, _ = begun.communicate(timeout=100)
    assert begun.returncode == 0, said
    imported, number, arguments, attempt, given = read_json(tmp_path / "1-1.json")
    assert imported is True and arguments == ["a", "b c"] and attempt == "1" and given == []
    # That of set.seed(3), which a new R gets, too.
    asked = ["Rscript", "-e", "set.seed(3); cat(format(runif(1), digits = 15))"]
    expected = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout
    assert number == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("program.py",), "no restarts"),
        (("--max-restarts", 1, "--", "sleep", "1"), "the program "),
        (
            ("--max-restarts", 1, "--backend", "mpi", "-n", 2, "program.py"),
            "--warm needs a backend that reads it.\n  found: the backend mpi\n"
            "  to do: Choose the backend local or ssh, or leave the setting out.",
        ),
        (("--hosts", "elsewhere:2", "program.py"), "no restarts"),
        (("--max-restarts", 1, "--hosts", "elsewhere:2", "--", "sleep", "1"), "the program sleep"),
    ],
)
def test_where_no_process_could_wait_it_is_refused(
    tmp_path: Path, arguments: tuple[object, ...], text: str
) -> None:
    write(tmp_path, "program.py", "pass")
    done = tfmuster("launch", "--warm", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and text in done.stderr
    assert not (tmp_path / "runs").exists()
