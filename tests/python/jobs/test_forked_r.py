"""An R program forked with TensorFlow imported does what one does that is started: see support/forks.py."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.forks import FRESH
from support.launching import only_run, tfmuster, wait_until, write
from support.r import NEEDS_R

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif("FORK_SERVERS" not in os.environ, reason="programs are not forked here"),
    NEEDS_R,
]

FORKED = (
    "cat('forked', reticulate::py_eval('hasattr(__import__(\"sys\"), \"forked_for_test\")'), fill = TRUE)"
)
SEEN = """
reticulate::import("tensorflow")
sys <- reticulate::import("sys")
environ <- Sys.getenv()
differs <- c("FORK_SERVERS", "PYTEST_CURRENT_TEST", "R_SESSION_TMPDIR", "R_SESSION_INITIALIZED")
environ <- environ[setdiff(sort(names(environ)), differs)]
seen <- list(
  args = commandArgs(), trailing = commandArgs(TRUE), folder = getwd(), environ = environ,
  libraries = .libPaths(), search = search(), interactive = interactive(), objects = ls(globalenv()),
  options = options()[c("width", "digits", "warn", "error", "encoding", "OutDec", "repos")],
  locale = Sys.getlocale(), sorted = sort(c("b", "A", "a", "B")), umask = format(Sys.umask()),
  path = sys$path, argv = sys$argv, in_python = reticulate::py_eval("sorted(__import__('os').environ)"),
  input = readLines(file("stdin"))
)
str(seen, vec.len = 1000, nchar.max = 10000)
"""
OWN = """
cat(runif(1), tempdir(), reticulate::py_eval("__import__('random').random()"), sep = "\\n")
stopifnot(
  identical(Sys.getpid(), reticulate::import("os")$getpid()), dir.exists(tempdir()),
  identical(tempdir(), Sys.getenv("R_SESSION_TMPDIR")),
  grepl(paste0("PID=", Sys.getpid(), ":"), Sys.getenv("R_SESSION_INITIALIZED"))
)
"""


def r(folder: Path, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["Rscript", *map(str, words)],
        cwd=folder,
        env={**os.environ, **env},
        input="a line\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("way", ["file", "expressions"])
@pytest.mark.parametrize("collate", ["C", "C.UTF-8"])
def test_a_program_sees_what_it_would_see(tmp_path: Path, way: str, collate: str) -> None:
    program = (write(tmp_path, "seen.R", SEEN).name,) if way == "file" else ("-e", SEEN, "-e", "1 + 1")
    forked, fresh = (r(tmp_path, *program, "a", "b c", LC_COLLATE=collate, **env) for env in ({}, FRESH))
    assert forked.returncode == fresh.returncode == 0, forked.stderr + fresh.stderr
    assert forked.stdout == fresh.stdout
    assert "a line" in forked.stdout


def test_what_is_its_own_is_its_own(tmp_path: Path) -> None:
    program = write(tmp_path, "own.R", OWN, FORKED)
    first, second, fresh = (r(tmp_path, program, **env) for env in ({}, {}, FRESH))
    said = [done.stdout.splitlines() for done in (first, second, fresh)]
    assert [lines.pop() for lines in said] == ["forked TRUE", "forked TRUE", "forked FALSE"]
    for values in zip(*said, strict=True):
        assert len(set(values)) == 3
    assert not any(Path(folder).exists() for _, folder, _ in said)


@pytest.mark.parametrize(
    "last",
    [
        "quit(status = 3)",
        "stop('planted')",
        "inner <- function(x) stop('inside ', x); outer <- function() inner(3); outer()",
        "rlang::abort(c('on top', i = 'of it'), class = 'mine')",
        "warning('late'); f <- function() quit('no', 4, runLast = FALSE); f()",
        "reg.finalizer(globalenv(), function(e) cat('last'), onexit = TRUE); x <- nothing",
        "f <- function() {\n  1 +",
        "x y",
        "reticulate::py_run_string('raise ValueError(3)')",
        "reticulate::py_run_string('import os; os._exit(7)')",
        "tools::pskill(Sys.getpid(), 9); Sys.sleep(9)",
        "options(error = quote({cat('called'); quit(status = 5)})); stop('planted')",
        "print(1:3); invisible(4); 'value'",
    ],
)
def test_a_program_ends_as_it_would_end(tmp_path: Path, last: str) -> None:
    lines = (
        "# tfmuster's name has it forked",
        "cat('out', fill = TRUE)",
        "message('err')",
        last,
        "cat('after')",
    )
    program = write(tmp_path, "ends.R", *lines)
    forked, fresh = (r(tmp_path, program.name, **env) for env in ({}, FRESH))
    assert (forked.returncode, forked.stdout, forked.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_it_gets_signals_and_ends_with_the_process_that_stands_for_it(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "waits.R",
        "cat(Sys.getpid(), basename(Sys.readlink('/proc/self')), file = 'pids')",
        "wait <- function() {",
        '  reticulate::py_run_string(\'import time; open("waits", "w").close(); time.sleep(60)\')',
        "}",
        "tryCatch(wait(), interrupt = function(e) file.create('interrupted'))",
        "Sys.sleep(60)",
    )
    process = subprocess.Popen(["Rscript", program], cwd=tmp_path)
    try:
        wait_until((tmp_path / "waits").exists)
        said, real = map(int, (tmp_path / "pids").read_text().split())
        assert said == process.pid != real
        process.send_signal(signal.SIGINT)
        wait_until((tmp_path / "interrupted").exists)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not os.path.exists(f"/proc/{real}"), 5)


def test_workers_train_to_the_same_bits(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "train.R",
        "library(tfmuster)",
        "keras <- reticulate::import('keras')",
        "made <- strategy('multi_worker_mirrored')",
        "x <- matrix(runif(512), 64)",
        "with(made$scope(), {",
        "  dense <- keras$layers$Dense",
        "  model <- keras$Sequential(list(keras$Input(reticulate::tuple(8L)), dense(4L), dense(1L)))",
        "  model$compile('adam', 'mse')",
        "})",
        "model$fit(x, matrix(rowSums(x)), epochs = 3L, batch_size = 16L, verbose = 0L)",
        "weights <- unlist(lapply(model$get_weights(), as.vector))",
        "cat('weights', sprintf('%a', weights), fill = 1e6)",
        FORKED,
    )
    logs = {}
    for name, env in (("forked", {}), ("fresh", FRESH)):
        (tmp_path / name).mkdir()
        done = tfmuster("launch", "-n", 2, "--seed", 3, program, cwd=tmp_path / name, limit=100, **env)
        assert done.returncode == 0, done.stderr
        folder = only_run(tmp_path / name) / "logs"
        logs[name] = [(folder / f"worker-{i}.log").read_text() for i in range(2)]
        assert all(f"forked {str(name == 'forked').upper()}" in log for log in logs[name]), logs
    weights = [re.findall("^weights (.+)$", log, re.M) for both in logs.values() for log in both]
    assert weights[0] and weights == [weights[0]] * 4
