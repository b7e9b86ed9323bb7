"""Test with one small job of two workers whether rendezvous, strategy, and Keras's ``fit`` work here."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from ..environment import RUN_DIR_VARIABLE
from ..errors import TfmusterError
from ..system.interpreter import run_module
from ..system.say import say
from ..system.tensorflow_import import require_tensorflow
from ..tracking.record.layout import write_json
from ..tracking.run import Run
from ..words import Code

_WORKERS = 2
#: What the test says when a worker is in one of these phases.
_STEPS = (
    ({"waiting", "starting", "training"}, "the workers meet each other and start TensorFlow"),
    ({"training"}, "the workers train"),
)


def selftest(
    script: str | os.PathLike[str] | None = None,
    *,
    timeout: float = 60.0,
    env: dict[str, str] | None = None,
    tell: bool = False,
) -> dict[str, Any]:
    """Run a job of two workers on this machine, and report whether several workers can train here.

    Parameters
    ----------
    script : path, optional
        Script that each worker runs, and that calls :func:`job`. Default: one for this Python.
    timeout : float
        Time limit of the job, in seconds.
    env : dict, optional
        Additional environment variables for the workers.
    tell : bool
        Whether to say what the test does while it does it. Default: False.

    Returns
    -------
    dict
        ``ready``, a bool; ``seconds``, the duration; ``found`` and ``fix``, texts if it is not ready; and
        ``notes``, those of :func:`tfmuster.diagnostics.doctor.doctor` if it is not ready, else empty.

    Raises
    ------
    DependencyError
        TensorFlow is not installed for this Python.
    """
    from .doctor import doctor

    require_tensorflow()
    begun = time.monotonic()
    problem, fix = None, None
    with tempfile.TemporaryDirectory(prefix="tfmuster-test-") as folder:
        try:
            problem = _run(Path(folder) / "run", script, timeout, env or {}, tell=tell)
        except TfmusterError as error:
            problem, fix = "\n".join(filter(None, (error.message, error.found))), error.fix
    return {
        "ready": problem is None,
        "seconds": time.monotonic() - begun,
        "found": problem,
        "fix": fix,
        "notes": doctor(devices=False)["notes"] if problem else [],
    }


def _run(
    run_dir: Path, script: str | os.PathLike[str] | None, timeout: float, env: dict[str, str], *, tell: bool
) -> str | None:
    """Run the job, and return what is wrong with it, or None."""
    from ..launcher import launch
    from ..options.table import Control

    words = run_module(__name__) if script is None else (script,)
    if tell:
        say(f"tfmuster: starting {_WORKERS} workers on this machine")
    run = launch(*words, workers=_WORKERS, run_dir=run_dir, name="test", control=Control(env=env), wait=False)
    try:
        if tell:
            _tell_phases(run, timeout)
        state = run.wait(0 if tell else timeout)["state"]
    finally:
        run.stop()
    if state in ("running", "starting"):
        doing = "; ".join(f"{task}: {text}" for task, text in _doing(run).items())
        return f"the job was not done after {timeout:.0f} s ({doing or 'the workers have printed nothing'})"
    run.check()
    results = [orjson.loads(path.read_bytes()) for path in sorted(run_dir.glob("result-*.json"))]
    if len(results) < _WORKERS:
        return f"only {len(results)} of {_WORKERS} workers have left a result"
    if len({result["weights"] for result in results}) > 1:
        return "the workers have different weights"
    if any(result["replicas"] != _WORKERS for result in results):
        return f"the workers did not train together: {results}"
    return None


def _tell_phases(run: Run, timeout: float) -> None:
    """Say what the workers do, until the run has ended or the time is up."""
    end = time.monotonic() + timeout
    announced = 0
    while run.goes_on and time.monotonic() < end:
        tasks = run.status()["tasks"].values()
        phases = {task.get("progress", {}).get("phase") for task in tasks}
        reached = max((number for number, (names, _) in enumerate(_STEPS) if names & phases), default=-1)
        for _, text in _STEPS[announced : reached + 1]:
            say(f"tfmuster: {text}")
        announced = max(announced, reached + 1)
        time.sleep(0.1)


def _doing(run: Run) -> dict[str, str]:
    return {
        task: lines.strip().splitlines()[-1] for task, lines in run.logs(lines=3).items() if lines.strip()
    }


def job() -> None:
    """Train a few steps of softmax regression under the strategy. Each worker of the test calls this."""
    from ..cluster.tf_config import current_task
    from ..digits.datasets import synthetic
    from ..digits.train import train_mnist
    from ..strategies.by_name import strategy

    workers = strategy("multi_worker_mirrored")
    digits = synthetic(seed=1, train=320, test=64)
    result = train_mnist(
        "softmax", dataset=digits, strategy=workers, batch_size=32, epochs=1, steps_per_epoch=5, verbose=False
    )
    weights = hashlib.sha256(b"".join(value.tobytes() for value in result.model.get_weights())).hexdigest()
    task = current_task()
    assert task is not None
    path = Path(os.environ[RUN_DIR_VARIABLE], f"result-{task.index}.json")
    write_json(path, {"weights": weights, "replicas": workers.num_replicas_in_sync})


def verdict(report: dict[str, Any]) -> list[str]:
    """Summarize a report of :func:`selftest` in lines of text."""
    if report["ready"]:
        seconds = f"{report['seconds']:.1f} s"
        return [f"You are ready: {_WORKERS} workers have trained together, with equal weights ({seconds})."]
    lines = ["Not ready yet.", *(f"  found: {line}" for line in report["found"].splitlines())]
    if report["fix"]:
        lines.append(f"  to do: {report['fix']}")
    more = Code("tfmuster doctor", "tfmuster_doctor()", "tfmuster doctor")
    return [*lines, *(f"  note: {note}" for note in report["notes"]), f"`{more}` reports more."]


if __name__ == "__main__":
    job()
