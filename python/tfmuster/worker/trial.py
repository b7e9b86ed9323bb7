"""Measure the speed of some steps of the user's program, for :mod:`tfmuster.diagnostics.tuning`.

If ``TFMUSTER_TRIAL_STEPS`` is set, every ``fit`` of Keras gets the callback of this module. It ends the
process after that many measured steps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ..environment import RUN_DIR_VARIABLE, TRIAL_STEPS_VARIABLE
from ..tracking.record.layout import write_json
from .progress import Shares

#: Steps before the measured ones, in which graphs are built and the steps per execution are chosen.
_WARM_UP_STEPS = 40


def trial_callback() -> list[Any]:
    """Return the callback that measures and then ends the process; an empty list if this is no trial."""
    steps = int(os.environ.get(TRIAL_STEPS_VARIABLE) or 0)
    if not steps:
        return []
    import keras

    class Trial(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._done = self._measured = 0
            self._seconds = 0.0
            self._last: tuple[int, float] | None = None
            self._shares = Shares()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            # Don't count the time between epochs.
            self._last = None

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            now = time.perf_counter()
            if self._last is not None:
                taken = batch - self._last[0]
                self._done += taken
                if self._done > _WARM_UP_STEPS:
                    self._measured += taken
                    self._seconds += now - self._last[1]
                else:
                    self._shares.restart(time.monotonic())
            self._last = batch, now
            # All workers run the same steps, so all end after the same one.
            if self._measured >= steps:
                self._end()

        def on_train_end(self, logs: Any = None) -> None:
            if self._measured:
                self._end()

        def _end(self) -> None:
            from ..rendezvous.task.join import report_end

            path = Path(os.environ[RUN_DIR_VARIABLE], f"trial-{os.getpid()}.json")
            found = {"seconds_per_step": self._seconds / self._measured, "steps": self._measured}
            write_json(path, {**found, **self._shares.until(time.monotonic())})
            report_end()
            sys.stdout.flush()
            sys.stderr.flush()
            # Don't wait for what the program does after training.
            os._exit(0)

    return [Trial()]
