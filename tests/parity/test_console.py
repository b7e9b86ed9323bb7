"""launch() in an R console, where output goes through R, and an interrupt is Ctrl-C, or Esc in RStudio."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(200)]


class Console:
    """An interactive R whose terminal is this test."""

    def __init__(self, folder: Path) -> None:
        self._mine, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "R", "--quiet", "--no-save", "--no-readline"],
            stdin=its,
            stdout=its,
            stderr=its,
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"},
        )
        os.close(its)
        self.written = ""

    def send(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def read_until(self, text: str, seconds: float = 150) -> str:
        """What was written until `text` appears, which the echo of what was typed must not have."""
        seen, end = "", time.monotonic() + seconds
        while text not in seen:
            assert time.monotonic() < end, f"did not see {text!r} in {seen[-2000:]!r}"
            if select.select([self._mine], [], [], 0.2)[0]:
                seen += os.read(self._mine, 65_536).decode(errors="replace")
        self.written += seen
        return seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._mine)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    r = Console(tmp_path)
    r.send("library(tfmuster); cat('rea', 'dy\\n')\n")
    r.read_until("rea dy")
    yield r
    r.close()


def test_a_bar_shows_each_epoch_and_lines_stay_as_they_are(console: Console) -> None:
    console.send(
        "values <- launch(function(strategy) { cat('two  spaces {x}\\n'); "
        "train_mnist('cnn', 'synthetic', strategy = strategy, epochs = 3, steps_per_epoch = 200, "
        "verbose = FALSE)$seconds }, workers = 2, control = launch_control(all_output = TRUE)); "
        "cat('it', 'ended\\n')\n"
    )
    seen = console.read_until("it ended")
    assert re.search(r"\d+/200 epoch \d/3  loss \d\.\d+  accuracy 0\.\d+  [\d,]+ images/s", seen)
    for worker in range(2):
        assert f"worker {worker} | two  spaces {{x}}" in seen
    for epoch in range(1, 4):
        assert re.search(rf"epoch {epoch}  loss [\d.]+  accuracy [\d.]+  [\d,]+ images/s\r", seen)


def test_an_interrupt_ends_the_workers_and_leaves_the_session(console: Console) -> None:
    console.send(
        "got <- tryCatch(launch(function() { message('begun'); Sys.sleep(100) }, workers = 2), "
        "interrupt = function(i) 'interrupt'); cat('caught', got, '\\n')\n"
    )
    console.read_until("| begun")
    console.send("\x03")
    console.read_until("caught interrupt", 20)
    console.send("cat('state', run_status()$state, '\\n')\n")
    console.read_until("state interrupted")


def test_a_chunk_of_an_rstudio_notebook_gets_a_line_for_each_epoch_and_no_bar(console: Console) -> None:
    """RStudio sets this option while it runs a chunk; it is all that R can know of it."""
    console.send(
        "options(rstudio.notebook.executing = TRUE); values <- launch(function(strategy) "
        "train_mnist('mlp', 'synthetic', strategy = strategy, epochs = 2, verbose = FALSE)$seconds, "
        "workers = 2); cat('it', 'ended\\n')\n"
    )
    seen = console.read_until("it ended").replace("\r\n", "\n")
    assert re.findall(r"^epoch (\d)  loss [\d.]+ .* images/s$", seen, re.M) == ["1", "2"]
    assert "/2  loss" not in seen and "K" not in re.findall(r"\x1b\[[?\d]*([A-Za-z])", seen)
