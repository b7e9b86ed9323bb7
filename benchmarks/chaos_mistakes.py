"""Mistakes and surroundings that chaos.py tries with a job of each: what it says, and what it leaves.

A job runs in a folder of its own. It survives if it ends in time with the right code and says the right
sentence, or trains as if nothing were wrong.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LAUNCH = (sys.executable, "-m", "tfmuster", "launch", "-n", "2")
#: After how many seconds a job that does not end is one that does not survive.
LIMIT = 300.0
#: A program that trains; `{}` is what one worker does before it makes its model.
_TRAINS = """
import json, os, sys, time
import tfmuster
strategy = tfmuster.strategy("multi_worker_mirrored")
import keras
import numpy as np
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
{}
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(np.ones((64, 4)), np.ones((64, 1)), verbose=0)
print("trained")
"""
_WAITS = "import time\nprint('begins', flush=True)\ntime.sleep(20)\nprint('trained', flush=True)\n"


@dataclass
class Mistake:
    """A job with a mistake or in odd surroundings."""

    #: What its launcher must say, a pattern, and with which code it must end.
    says: str
    code: int
    program: str = "print('trained')"
    launch: tuple[str, ...] = LAUNCH
    arguments: tuple[str, ...] = ("train.py",)
    environment: tuple[tuple[str, str], ...] = ()
    #: What happens while it runs, in its folder, when its workers have begun.
    meanwhile: Callable[[Path], None] | None = None
    #: What is there before, and what must be so afterwards.
    before: Callable[[Path], None] | None = None
    after: Callable[[Path], bool] | None = None


def _run(folder: Path) -> Path:
    return next((folder / "runs").iterdir())


def _command(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tfmuster", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT / 2,
        check=False,
    )
    return done.stdout if done.returncode == 0 else done.stderr


def _tear(folder: Path) -> None:
    """Cut the files of states while the run is shown."""
    run = _run(folder)
    for path in (run / "states").glob("*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    _command(folder, "runs", "report", run.name)
    for path in (run / "states").glob("*"):
        path.write_bytes(b"")
    _command(folder, "runs", "show", run.name)


def _add_special_files(folder: Path) -> None:
    """Put another user's run with a FIFO, a link to a device and a sparse file into the folder of runs."""
    run = folder / "runs" / "20260101T000000Z-special"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"command": ["a"], "started": "2026-01-01T00:00:00+00:00"}')
    os.mkfifo(run / "status.json")
    (run / "metrics.jsonl").symlink_to("/dev/zero")
    with (run / "notes.jsonl").open("wb") as file:
        file.truncate(20 << 30)


def _lists_both(folder: Path) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        listed = _command(folder, "runs", "list")
        return "special" in listed and "train" in listed
    return False


def _shadow_click(folder: Path) -> None:
    (folder / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")


def _hide_proc() -> tuple[str, ...]:
    return ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", *LAUNCH)


MISTAKES = {
    "launches itself": Mistake(
        r"A worker of a job must not launch another one.*train\.py, line 2: tfmuster\.launch\(",
        1,
        "import tfmuster\ntfmuster.launch('train.py', workers=2)\n",
        launch=(sys.executable,),
    ),
    "proxy variables": Mistake(
        r"worker 0 \| trained.*done in",
        0,
        _TRAINS.format(""),
        environment=tuple(
            (name, "http://127.0.0.1:9") for name in ("http_proxy", "https_proxy", "grpc_proxy")
        ),
    ),
    "exits 0 early": Mistake(
        r"worker 0 still needs worker 1, which finished its program",
        1,
        _TRAINS.format("if index == 1: sys.exit(0)"),
    ),
    "hangs early": Mistake(
        r"worker 1 on \S+ failed.*stalled: .*train\.py, line 8: if index == 1",
        1,
        _TRAINS.format("if index == 1: time.sleep(900)"),
        arguments=("--stall-timeout", "10", "train.py"),
    ),
    "torn report": Mistake(r"worker 0 \| trained.*done in", 0, _WAITS, meanwhile=_tear),
    "special files": Mistake(
        r"worker 0 \| trained.*done in", 0, _WAITS, before=_add_special_files, after=_lists_both
    ),
    "run renamed": Mistake(
        r"The run directory must stay where it is while the job runs\.",
        2,
        _WAITS.replace("20", "200"),
        meanwhile=lambda folder: (folder / "runs").rename(folder / "renamed"),
    ),
    "/proc hidden": Mistake(
        r"The processes of this machine must be visible\.\n  found: /proc is not mounted",
        2,
        launch=_hide_proc(),
    ),
    "lo down": Mistake(
        r"must reach each other at 127\.0\.0\.1\.\n  found: ", 2, launch=("unshare", "--net", *LAUNCH)
    ),
    "| head": Mistake(
        r"worker \d \| begins\n.*the job continues, and its run keeps all of it.*done in",
        0,
        _WAITS.replace("'trained'", "'trained\\n' * 99"),
        launch=("sh", "-c", '"$@" | head -1', "sh", *LAUNCH),
        after=lambda folder: (_run(folder) / "logs" / "worker-0.log").read_text().count("trained") == 99,
    ),
    "no hostfile": Mistake(
        r"hosts\.txt.*No such file or directory.*to do: ",
        2,
        launch=LAUNCH[:4],
        arguments=("--hostfile", "hosts.txt", "train.py"),
    ),
    "Ctrl-C at import": Mistake(r"\A\Z", -signal.SIGINT, before=_shadow_click),
}
#: What needs namespaces, and so root.
NEED_ROOT = ("/proc hidden", "lo down")


def tried(kind: str, folder: Path) -> tuple[bool, float, str]:
    """Run the job of a kind; return whether it survives, its seconds, and what it says."""
    mistake = MISTAKES[kind]
    folder.mkdir()
    (folder / "train.py").write_text(mistake.program)
    if mistake.before is not None:
        mistake.before(folder)
    packages = [*filter(None, [os.environ.get("PYTHONPATH")])]
    paths = os.pathsep.join([str(folder), *packages] if kind == "Ctrl-C at import" else packages)
    began = time.monotonic()
    process = subprocess.Popen(
        [*mistake.launch, *mistake.arguments],
        cwd=folder,
        env={**os.environ, **dict(mistake.environment), "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        if mistake.meanwhile is not None:
            _wait_for_workers(folder, process)
            mistake.meanwhile(folder)
        said = process.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        return False, LIMIT, f"still runs after {LIMIT:.0f} s\n{process.communicate()[0]}"
    right = re.search(mistake.says, said, re.DOTALL) is not None and process.returncode == mistake.code
    right = right and (mistake.after is None or mistake.after(folder))
    return right, time.monotonic() - began, f"exit code {process.returncode}\n{said}"


def _wait_for_workers(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until both workers have printed something."""
    end = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < end:
        logs = [*folder.glob("runs/*/logs/worker-*.log")]
        if len(logs) == 2 and all(log.stat().st_size for log in logs):
            return
        time.sleep(0.05)
