"""Find fast settings for a training with short, measured trials of the user's program.

The trials vary the images per worker, the data type of sent gradients, the steps per execution, and the
threads per process. Each trial is a separate job. For comparison, as many one-worker jobs as there are
workers run at the same time, which measures the machine without communication.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..environment import GRADIENT_DTYPE_VARIABLE, STEPS_PER_EXECUTION_VARIABLE, TRIAL_STEPS_VARIABLE
from ..errors import LaunchError
from ..launcher.engines.local import ThisMachine
from ..launcher.job import Job
from ..tracking.record.layout import read_json

BATCH = "{batch}"
_THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"
#: Number of output lines to show of a trial that fails.
_MOST_LINES = 4
#: Minimum speedup to recommend a setting over a simpler one; repeated trials differ by less.
_WORTH = 1.05
#: Minimum speedup to recommend a larger batch, because a smaller one learns more per image.
_BATCH_WORTH = 1.15


@dataclass(frozen=True)
class Setting:
    """The settings of a trial; None leaves the default of TensorFlow or tfmuster."""

    #: Images per worker; None if the program has no ``{batch}`` among its arguments.
    batch: int | None = None
    gradient_dtype: str = "float32"
    steps_per_execution: int | None = None
    #: Threads per process.
    threads: int | None = None

    def __str__(self) -> str:
        words = [f"{self.batch} images per worker"] if self.batch else []
        words.append(f"gradients as {self.gradient_dtype}")
        if self.steps_per_execution:
            words.append(f"steps_per_execution={self.steps_per_execution}")
        if self.threads:
            words.append(f"{_THREADS_VARIABLE}={self.threads}")
        return ", ".join(words)

    def environment(self) -> dict[str, str]:
        """Return the environment variables that apply this setting."""
        variables = {
            GRADIENT_DTYPE_VARIABLE: self.gradient_dtype,
            STEPS_PER_EXECUTION_VARIABLE: self.steps_per_execution,
            _THREADS_VARIABLE: self.threads,
        }
        return {name: str(value) for name, value in variables.items() if value is not None}


@dataclass(frozen=True)
class Trial:
    """The measurements of one trial."""

    setting: Setting
    #: Seconds per step of the job.
    seconds: float
    #: Seconds per step of a one-worker job, while one such job per worker runs.
    alone: float
    workers: int
    #: Largest share of its time in which a worker waited for the others, 0 to 1.
    waiting: float = 0.0
    #: The worker for which that one waited longest; empty if nobody waited.
    waits_for: str = ""

    @property
    def efficiency(self) -> float:
        """The job's speed divided by that of its workers alone; 1 means no cost of communication."""
        return self.alone / self.seconds

    @property
    def speed(self) -> float:
        """Images per second of all workers, or steps per second if the batch is unknown."""
        return (self.setting.batch or 1) * (self.workers if self.setting.batch else 1) / self.seconds

    @property
    def communication(self) -> float:
        """The share of a step that is not a worker's own computation, 0 to 1."""
        return max(0.0, 1 - self.efficiency)


def tune(
    command: Sequence[str],
    workers: int,
    *,
    batches: Sequence[int],
    steps: int,
    on_trial: Callable[[Trial], None],
) -> list[Trial]:
    """Run the trials of a command on at least two workers. :func:`recommend` returns the best of them.

    ``{batch}`` in an argument of the command stands for the images per worker, of which `batches` are tried.
    `on_trial` is called with each trial when it ends. Raises LaunchError if a trial fails, with its output,
    or never calls ``fit``.
    """
    has_batch = any(BATCH in argument for argument in command)
    if batches and not has_batch:
        raise LaunchError(
            "The program's batch size can't be set.",
            found=f"no {BATCH} among its arguments",
            fix=f"pass the batch size as an argument, such as --batch-size {BATCH}",
            reason="batch",
        )
    if has_batch and not batches:
        raise LaunchError("There is no batch size to try.", fix="use --batch 32,64,256", reason="batch")
    trials: list[Trial] = []
    one_worker: dict[tuple[int | None, int | None], float] = {}

    def run(setting: Setting) -> Trial:
        alike = (setting.batch, setting.threads)
        if alike not in one_worker:
            with ThreadPoolExecutor(workers) as pool:
                plain = replace(setting, gradient_dtype="float32", steps_per_execution=None)
                side_by_side = [pool.submit(_measure, command, 1, plain, steps) for _ in range(workers)]
                one_worker[alike] = statistics.mean(_slowest(run.result()) for run in side_by_side)
        notes = _measure(command, workers, setting, steps)
        waiting, waits_for = max((note.get("wait_share", 0.0), note.get("waits_for", "")) for note in notes)
        trial = Trial(setting, _slowest(notes), one_worker[alike], workers, waiting, waits_for)
        trials.append(trial)
        on_trial(trial)
        return trial

    sizes: Sequence[int | None] = batches or [None]
    for batch in sizes:
        for dtype in ("float32", "bfloat16"):
            run(Setting(batch, dtype))
    best = recommend(trials).setting
    run(replace(best, steps_per_execution=1))
    run(replace(best, threads=max(1, (os.cpu_count() or 1) // workers)))
    return trials


def recommend(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the simplest setting and smallest batch that is about as fast as any."""
    best = trials[0]
    for trial in trials[1:]:
        same_batch = trial.setting.batch == best.setting.batch
        if trial.speed > best.speed * (_WORTH if same_batch else _BATCH_WORTH):
            best = trial
    return best


def advice(trials: Sequence[Trial]) -> str:
    """Write the recommendation as text."""
    best = recommend(trials)
    setting = best.setting
    lines = [f"Use {setting}."]
    if setting.gradient_dtype != "float32":
        lines.append(f"Gradients: strategy(..., gradient_dtype={setting.gradient_dtype!r}).")
    gain = best.workers * best.efficiency
    if gain < 1.1:
        lines.append(
            f"{best.workers} workers do {gain:.2f} times the work of one: here more workers do not pay. "
            "A larger batch, a larger model or separate machines would change that."
        )
    else:
        lines.append(f"{best.workers} workers then do {gain:.2f} times the work of one of them.")
    smallest = min((trial.setting.batch for trial in trials if trial.setting.batch), default=None)
    if setting.batch and smallest and setting.batch > smallest:
        lines.append(
            "With a larger global batch, raise the learning rate by the same factor and warm it up over the "
            "first epochs (the linear rule of Goyal et al. 2017, arXiv:1706.02677), and look at the accuracy."
        )
    return "\n".join(lines)


def _slowest(notes: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds per step of the slowest worker."""
    return max(float(note["seconds_per_step"]) for note in notes)


def _measure(command: Sequence[str], workers: int, setting: Setting, steps: int) -> list[dict[str, Any]]:
    """Run one trial, and return what each worker has measured."""
    with tempfile.TemporaryDirectory(prefix="tfmuster-trial-") as folder:
        run_dir = Path(folder, "run")
        job = Job(
            command=[argument.replace(BATCH, str(setting.batch)) for argument in command],
            workers=workers,
            run_dir=run_dir,
            env={**setting.environment(), TRIAL_STEPS_VARIABLE: str(steps)},
        )
        _, failure = ThisMachine().run(job, show="nothing")
        if failure is not None:
            lines = (f"with {setting}", *failure.last_lines[-_MOST_LINES:])
            message = f"A trial failed: {failure.headline()}"
            raise LaunchError(message, found="\n         ".join(lines), reason="trial")
        if notes := [read_json(path) for path in run_dir.glob("trial-*.json")]:
            return notes
    raise LaunchError(
        "The program ended before a trial could be measured.",
        found="no fit of Keras, or fewer than a hundred steps in it",
        fix="train for a few hundred steps",
        reason="trial",
    )
