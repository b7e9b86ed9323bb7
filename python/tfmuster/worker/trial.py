"""A short training to measure its speed, for :mod:`tfmuster.diagnostics.tuning`: some steps, and a note.

The program is the user's own. Where the environment has ``TFMUSTER_TRIAL_STEPS``, every ``fit`` of Keras gets
the callback of this module, which ends the process after so many measured steps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ..environment import RUN_DIR_VARIABLE, TRIAL_STEPS_VARIABLE
from ..runs.layout import write_json

#: Steps before the measured ones: graphs are built, and executions find their length.
_WARM_UP_STEPS = 40


def trial_callback() -> list[Any]:
    """The callback that measures and ends; none in a program that is no trial."""
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

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            # What lies between epochs is no step.
            self._last = None

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            now = time.perf_counter()
            if self._last is not None:
                taken = batch - self._last[0]
                self._done += taken
                if self._done > _WARM_UP_STEPS:
                    self._measured += taken
                    self._seconds += now - self._last[1]
            self._last = batch, now
            # Steps are the same on all workers, so all end after the same one.
            if self._measured >= steps:
                self._end()

        def on_train_end(self, logs: Any = None) -> None:
            if self._measured:
                self._end()

        def _end(self) -> None:
            from ..rendezvous.join import report_end

            path = Path(os.environ[RUN_DIR_VARIABLE], f"trial-{os.getpid()}.json")
            write_json(path, {"seconds_per_step": self._seconds / self._measured, "steps": self._measured})
            report_end()
            sys.stdout.flush()
            sys.stderr.flush()
            # What the program would do after its training is not to be waited for.
            os._exit(0)

    return [Trial()]
