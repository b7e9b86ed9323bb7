"""A program in one process, and on two workers, each under a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .scripts import INSIDE

#: The environment of all programs.
COMMON = {
    **{"PYTHONHASHSEED": "0", "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"},
    **{"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg"},
}


@dataclass(frozen=True)
class Ran:
    """How a run of a program ended; ``code`` is None if the time limit ended it."""

    code: int | None
    output: str
    seconds: float
    records: Path
    #: What ``tfmuster runs show --json`` says.
    shown: dict[str, Any] = field(default_factory=dict)

    def done(self, worker: int = 0) -> dict[str, Any]:
        """Return how many calls were recorded, and how the recording ended; empty if it has not."""
        path = self.records / f"done-{worker}.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def calls(self, worker: int = 0) -> int:
        """Return the number of calls that were recorded."""
        return len(list(self.records.glob(f"call-*-{worker}.npz")))


def run_one(script: Path, folder: Path, data: Path, seconds: float) -> Ran:
    """Run a program as stock Keras in one process. It ends between two calls after two thirds of the time."""
    settings = {"PROGRAMS_SECONDS": str(2 * seconds / 3)}
    return _run([sys.executable, str(script)], folder / "one", data, seconds, settings)


def run_again(script: Path, folder: Path, data: Path, seconds: float, calls: int) -> Ran:
    """Run a program in one process with other last bits: TensorFlow multiplies with other kernels."""
    settings = {"PROGRAMS_CALLS": str(calls), "TF_ENABLE_ONEDNN_OPTS": "0"}
    return _run([sys.executable, str(script)], folder / "again", data, seconds, settings)


def run_two(script: Path, folder: Path, data: Path, seconds: float, calls: int | None) -> Ran:
    """Run a program on two workers, up to the number of calls that one process made, or to its end."""
    settings = {} if calls is None else {"PROGRAMS_CALLS": str(calls)}
    module = [sys.executable, "-m", "tfmuster"]
    directory = str(folder / "two" / "run")
    limits = ["--seed", "7", "--start-timeout", "300", "--stall-timeout", f"{0.7 * seconds:.0f}"]
    command = [*module, "launch", "-n", "2", "--distribute", "--run-dir", directory, *limits, str(script)]
    ran = _run(command, folder / "two", data, seconds, settings)
    show = [*module, "runs", "show", directory, "--json"]
    shown = subprocess.run(show, capture_output=True, text=True, timeout=300, check=False)
    with contextlib.suppress(json.JSONDecodeError):
        return Ran(ran.code, ran.output, ran.seconds, ran.records, json.loads(shown.stdout))
    return ran


def _run(command: list[str], folder: Path, data: Path, seconds: float, settings: dict[str, str]) -> Ran:
    records = folder / "records"
    records.mkdir(parents=True)
    environment = {
        **os.environ,
        **COMMON,
        **{"PYTHONPATH": os.pathsep.join(filter(None, (str(INSIDE), os.environ.get("PYTHONPATH", ""))))},
        **{"PROGRAMS_RECORDS": str(records), "PROGRAMS_DATA": str(data), "HOME": str(data), **settings},
    }
    output = folder / "output.txt"
    begun = time.monotonic()
    with output.open("w") as file:
        options = {"stdout": file, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **options)  # type: ignore[call-overload]
        code = _wait(process, seconds)
    return Ran(code, output.read_text(errors="replace"), time.monotonic() - begun, records)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        # A launcher ends its workers, which have sessions of their own.
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None
