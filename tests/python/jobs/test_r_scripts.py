"""A script of R that never heard of tfmuster: its error has a backtrace, and all else stays."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.launching import environment, tfmuster, write
from support.r import NEEDS_R
from tfmuster.tracking.record.layout import read_json

pytestmark = NEEDS_R

FAILS = 'f <- function(x) g(x); g <- function(x) {{ on.exit(cat("left g\\n")); {} }}; f(3)'


def failure(tmp_path: Path, *lines: str, code: int = 1) -> tuple[dict[str, Any], str]:
    """The error of a launched script, and what its log has after what it prints without a launcher."""
    write(tmp_path, "train.R", *lines)
    alone = subprocess.run(
        ["Rscript", "train.R"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    done = tfmuster("launch", "-n", 1, "--run-dir", "run", "train.R", cwd=tmp_path)
    assert done.returncode == (1 if code else 0), done.stderr
    tasks = read_json(tmp_path / "run/status.json")["tasks"]
    assert tasks["worker 0"]["exit_code"] == alone.returncode == code
    log = (tmp_path / "run/logs/worker-0.log").read_text()
    assert log.startswith(alone.stdout)
    return read_json(tmp_path / "run/error.json"), log.removeprefix(alone.stdout)


def test_the_users_own_lines_are_in_the_error_the_log_and_the_report(tmp_path: Path) -> None:
    error, added = failure(tmp_path, FAILS.format('warning("odd"); stop("no \\"luck\\"\\twith ", x)'))
    lines = error["traceback"].splitlines()
    assert error["error"] == 'Error in g(x) : no "luck"\twith 3'
    assert lines[0] == "Backtrace:"
    assert [line.split(". ", 1)[1].removeprefix("global ") for line in lines[1:3]] == ["f(3)", "g(x)"]
    assert lines[3].endswith('stop("no \\"luck\\"\\twith ", x)')
    assert added == error["traceback"] + "\n"
    shown = tfmuster("runs", "show", "run", cwd=tmp_path).stdout
    assert shown.endswith("".join(f"\n  {line}" for line in lines[1:]) + "\n")


def test_without_rlang_the_lines_are_those_of_r(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("R_LIBS", "R_LIBS_USER", "R_LIBS_SITE"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    alone = 'stopifnot(!nzchar(system.file(package = "rlang")))'
    error, _ = failure(tmp_path, alone, FAILS.format("log(-x:y)"))
    assert error["traceback"].startswith("Backtrace:\n 1. f(3)\n 2. g(x)")


def test_an_error_of_rlang_has_its_backtrace_once(tmp_path: Path) -> None:
    error, added = failure(tmp_path, FAILS.format('rlang::abort(c("no luck", i = "of it"))'))
    assert error["error"] == "Error in `g()`: no luck"
    lines = error["traceback"].splitlines()
    assert lines[:4] == ["ℹ of it", "Backtrace:", " 1. global f(3)", " 2. global g(x)"]
    assert added == ""


def test_an_error_of_python_has_both_tracebacks(tmp_path: Path) -> None:
    raising = "def fails(x):\\n  raise ValueError('bad digit')"
    lines = f'reticulate::py_run_string("{raising}")', "g <- function() reticulate::py$fails(1)", "g()"
    error, _ = failure(tmp_path, *lines)
    assert error["error"].endswith("ValueError: bad digit")
    assert error["traceback"].splitlines()[1].endswith(" g()")
    assert "\nTraceback of Python:\n" in error["traceback"]
    assert error["traceback"].endswith(", in fails")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["f <- function() quit(status = 3)", "f()"], 3),
        (["x <- 1; y <- 2 3"], 1),
        (["options(error = function() quit(status = 5))", "f <- function() stop('a')", "f()"], 5),
        (["f <- function() { on.exit(quit(status = 7)); stop('a') }", "f()"], 7),
        (["stopifnot(is.null(getOption('error')))", "globalCallingHandlers(NULL)", "stop('a')"], 1),
        (["tryCatch(stop('a'), error = function(e) quit(status = 9))"], 9),
        (["globalCallingHandlers(error = function(e) cat('mine\\n'))", "f <- function() log('a')", "f()"], 1),
        (["options(warn = 2); f <- function() as.integer('x')", "f()"], 1),
        (["f <- function() { tools::pskill(Sys.getpid(), tools::SIGINT); Sys.sleep(9) }", "f()"], 1),
    ],
)
def test_how_a_script_ends_stays(tmp_path: Path, lines: list[str], code: int) -> None:
    error, added = failure(tmp_path, *lines, code=code)
    assert added in ("", error["traceback"] + "\n")


def test_an_error_that_the_program_handles_is_not_its_end(tmp_path: Path) -> None:
    # The last one stops nothing, though nothing handles it.
    lines = [
        "f <- function() stop('inner')",
        "withRestarts(f(), abort = function() cat('aborted\\n'))",
        "try(f()); tryCatch(f(), error = function(e) cat('caught\\n'))",
        "e <- new.env(); reg.finalizer(e, function(e) stop('of a finalizer')); rm(e); invisible(gc())",
        "said <- structure(class = c('error', 'condition'), list(message = 'signalled', call = NULL))",
        "signalCondition(said); Sys.sleep(5); cat('done\\n')",
    ]
    assert failure(tmp_path, *lines, code=0) == ({}, "")


def test_an_error_that_only_signals_is_not_the_cause(tmp_path: Path) -> None:
    said = "structure(class = c('error', 'condition'), list(message = 'signalled', call = NULL))"
    error, added = failure(tmp_path, f"signalCondition({said})", "quit(status = 4)", code=4)
    assert (error["error"], error["traceback"], added) == ("", "", "")


def test_the_stack_of_an_endless_recursion_ends_the_script(tmp_path: Path) -> None:
    write(tmp_path, "train.R", "f <- function(n) f(n + 1)", "f(1)", "cat('never\\n')")
    done = tfmuster("launch", "-n", 1, "--run-dir", "run", "train.R", cwd=tmp_path)
    assert done.returncode == 1
    assert "never" not in done.stdout
    assert read_json(tmp_path / "run/error.json")["error"].startswith("Error: ")
