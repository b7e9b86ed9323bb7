"""Which settings make a training fast on these workers: short trials of the user's own program, measured.

What is varied: images per worker, the type that gradients travel as, steps per execution, and threads per
process. Each trial is a job of its own by :func:`tfmuster.launch`; beside it, as many one-worker jobs as
there are workers run side by side, which is what the machine could do without any communication.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ..environment import GRADIENT_DTYPE_VARIABLE, STEPS_PER_EXECUTION_VARIABLE, TRIAL_STEPS_VARIABLE
from ..errors import LaunchError
from ..launch.engines.local import ThisMachine
from ..launch.job import Job
from ..runs.layout import read_json

BATCH = "{batch}"
_THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"
#: Of the output of a trial that fails, how many lines are shown.
_MOST_LINES = 4
#: A setting is recommended over a simpler one only for at least so much more speed: trials differ by less.
_WORTH = 1.05
#: A smaller batch is recommended unless a larger one is faster by more than this: it learns more per image.
_BATCH_WORTH = 1.15


@dataclass(frozen=True)
class Setting:
    """What a trial is run with; None leaves TensorFlow's or tfmuster's default.

    Attributes
    ----------
    batch : int, optional
        Images per worker; None if the program has no ``{batch}`` among its arguments.
    gradient_dtype : str
        As what gradients travel.
    steps_per_execution : int, optional
        None: as many as pay.
    threads : int, optional
        Of each process.
    """

    batch: int | None = None
    gradient_dtype: str = "float32"
    steps_per_execution: int | None = None
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
        """The variables that put it in force."""
        found = {GRADIENT_DTYPE_VARIABLE: self.gradient_dtype}
        if self.steps_per_execution is not None:
            found[STEPS_PER_EXECUTION_VARIABLE] = str(self.steps_per_execution)
        if self.threads is not None:
            found[_THREADS_VARIABLE] = str(self.threads)
        return found


@dataclass(frozen=True)
class Trial:
    """What was measured.

    Attributes
    ----------
    setting : Setting
    seconds : float
        Of a step of the job.
    alone : float
        Of a step of a one-worker job, while as many of them run side by side.
    workers : int
    """

    setting: Setting
    seconds: float
    alone: float
    workers: int

    @property
    def efficiency(self) -> float:
        """Speed of the job over that of its workers without each other; 1: communication is free."""
        return self.alone / self.seconds

    @property
    def speed(self) -> float:
        """Images per second of all workers; steps per second where the batch is unknown."""
        return (self.setting.batch or 1) * (self.workers if self.setting.batch else 1) / self.seconds

    @property
    def communication(self) -> float:
        """The share of a step that is not one worker's own computing, 0 to 1."""
        return max(0.0, 1 - self.efficiency)


def tune(
    command: Sequence[str],
    workers: int,
    *,
    batches: Sequence[int] = (),
    steps: int = 60,
    on_trial: Callable[[Trial], None] = lambda _: None,
) -> list[Trial]:
    """Run the trials; the best setting is found by :func:`recommend`.

    Parameters
    ----------
    command : sequence of str
        Script or command and its arguments, as for ``tfmuster launch``. ``{batch}`` in an argument stands for
        the images per worker.
    workers : int
        At least 2.
    batches : sequence of int
        Images per worker to try; needs ``{batch}``.
    steps : int
        Measured steps of each trial.
    on_trial
        Called after each trial.

    Raises
    ------
    LaunchError
        A trial failed (its error is told), or never came to ``fit``.
    """
    has_batch = any(BATCH in argument for argument in command)
    if batches and not has_batch:
        raise LaunchError(
            "The program's batch can't be set.",
            found=f"no {BATCH} among its arguments",
            fix=f"pass its batch size as an argument, such as --batch-size {BATCH}",
            reason="batch",
        )
    if has_batch and not batches:
        raise LaunchError("There is no batch size to try.", fix="--batch 32,64,256", reason="batch")
    trials: list[Trial] = []
    one_worker: dict[tuple[int | None, int | None], float] = {}

    def run(setting: Setting) -> Trial:
        alike = (setting.batch, setting.threads)
        if alike not in one_worker:
            with ThreadPoolExecutor(workers) as pool:
                plain = replace(setting, gradient_dtype="float32", steps_per_execution=None)
                side_by_side = [pool.submit(_measure, command, 1, plain, steps) for _ in range(workers)]
                one_worker[alike] = statistics.mean(each.result() for each in side_by_side)
        trial = Trial(setting, _measure(command, workers, setting, steps), one_worker[alike], workers)
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
    """The trial with the simplest setting and the smallest batch that is about as fast as any."""
    best = trials[0]
    for trial in trials[1:]:
        same_batch = trial.setting.batch == best.setting.batch
        if trial.speed > best.speed * (_WORTH if same_batch else _BATCH_WORTH):
            best = trial
    return best


def _measure(command: Sequence[str], workers: int, setting: Setting, steps: int) -> float:
    """Seconds per step of the slowest worker."""
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
            said = (f"with {setting}", *failure.last_lines[-_MOST_LINES:])
            message = f"A trial failed: {failure.headline()}"
            raise LaunchError(message, found="\n         ".join(said), reason="trial")
        notes = [read_json(path) for path in run_dir.glob("trial-*.json")]
        with contextlib.suppress(ValueError):
            return max(float(note["seconds_per_step"]) for note in notes)
    raise LaunchError(
        "The program ended before a trial could be measured.",
        found="no fit of Keras, or fewer than a hundred steps in it",
        fix="let it train for some hundred steps",
        reason="trial",
    )
