"""Note what this process does, and whether it moves, for the other workers that may wait for it.

Code that runs steps notes the calls and executions here; the control channel reports them to the chief. A
process moves if it enters or leaves an execution, computes, or reads and writes files. A process that only
waits does none of these.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from .embedded_r import r_calls
from .user_code import line_of_main_thread

#: A process computes if it uses this much processor time, in seconds, and this share of a core. A process
#: that waits in TensorFlow uses less than a hundredth of a core.
_LEAST_SECONDS: Final = 0.2
_LEAST_SHARE: Final = 0.03
#: A process reads or writes if it moves this many bytes per second. States and reports take less.
_LEAST_BYTES: Final = 32 * 1024
#: After this many seconds without motion, child processes count, too: they may prepare data.
_CHILDREN_AFTER: Final = 30.0


class Activity:
    """What this process does."""

    def __init__(self) -> None:
        #: Whether this process has a multi-worker strategy, so that others may wait for it.
        self.watched = False
        #: Executions with a collective operation that this process has entered. Workers of one
        #: program have entered equally many.
        self.executions = 0
        #: Batches of the epoch after which this worker's data ended within an execution; None if it did not.
        self.data_ended: int | None = None
        #: The variable that this process makes together with the others, if it does.
        self.making: str | None = None
        #: R's calls when it last made a call such as ``fit``, one per line.
        self.r_calls = ""
        #: Called when a call begins or ends.
        self.on_call: Callable[[], None] = lambda: None
        #: Called when the program has ended well; an error refuses that.
        self.before_end: Callable[[], None] = lambda: None
        self._calls: list[dict[str, Any]] = []
        #: The event that comes next, and what is called then.
        self._next: tuple[str, Callable[[], None]] = ("", lambda: None)
        self._depth = 0
        self._library = ""
        self._looks: Callable[[], bool] = lambda: False
        self._changes = 0
        self._changed = time.monotonic()
        self._motion = _Motion()

    @contextlib.contextmanager
    def call(self, name: str, **position: object) -> Iterator[dict[str, Any]]:
        """Note a call such as ``fit`` while the block runs. Yield its position, which may be changed."""
        place = {"call": name, **position}
        self.r_calls = r_calls()
        self._calls.append(place)
        self.changed()
        self.on_call()
        try:
            yield place
        finally:
            self._calls.remove(place)
            self.changed()
            self.on_call()

    @contextlib.contextmanager
    def execution(self) -> Iterator[None]:
        """Note an execution with a collective operation while the block runs."""
        self.executions += 1
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Note that this process enters TensorFlow, where it may wait for others."""
        self._depth += 1
        self.changed()

    def leave(self) -> None:
        """Note that it has left TensorFlow."""
        self._depth -= 1
        self.changed()

    @property
    def waits(self) -> bool:
        """Whether this process is inside TensorFlow, or the library of :meth:`waits_in`."""
        return self._depth > 0 or self._looks()

    def waits_in(self, library: str, look: Callable[[], bool]) -> None:
        """Ask ``look`` whether this process is inside of a library, which is not TensorFlow."""
        self._library, self._looks = library, look

    def place(self) -> dict[str, Any]:
        """Return the position of the innermost call; empty outside of all calls."""
        return self._calls[-1] if self._calls else {}

    def at_next(self, event: str = "", action: Callable[[], None] = lambda: None) -> None:
        """Call `action` once, at the next event of this name, in place of what was to be called at another.

        The events are ``function`` (the program runs a function of TensorFlow) and ``traced`` (an execution
        was traced). Without arguments, nothing is called.
        """
        self._next = event, action

    def happens(self, event: str) -> None:
        """Note an event."""
        if self._next[0] == event:
            (_, action), self._next = self._next, ("", lambda: None)
            action()

    def changed(self) -> None:
        """Note that this process has moved."""
        self._changes += 1
        self._changed = time.monotonic()

    def report(self) -> dict[str, Any]:
        """Return the state of this process as JSON values. Call it about once a second, from one thread."""
        now = time.monotonic()
        position = {name: value for name, value in self.place().items() if value is not None}
        still = self._motion.seconds_still(self._changes, now)
        line = None if position else line_of_main_thread()
        return {
            **position,
            **({"line": line} if line is not None else {}),
            **({"library": self._library} if self._library else {}),
            "executions": self.executions,
            "inside": self.waits,
            # Nothing is noted when a step of another library begins or ends.
            "unchanged": still if self._library else now - self._changed,
            "still": still,
            **({"ended": self.data_ended} if self.data_ended is not None else {}),
            **({"making": self.making} if self.making is not None else {}),
        }


class _Motion:
    """Measures how long this process has not moved."""

    def __init__(self) -> None:
        self._since = 0.0
        self._changes = -1
        self._used = _Used()

    def seconds_still(self, changes: int, now: float) -> float:
        """Return the seconds since this process moved. `changes` is a counter that shows motion."""
        self._since = self._since or now
        used = _Used(children=now - self._since > _CHILDREN_AFTER)
        if changes != self._changes or used.shows_work_since(self._used, now - self._since):
            self._since, self._changes, self._used = now, changes, used
        return now - self._since


class _Used:
    """Processor time and bytes that this process has used; with ``children``, also its descendants' time."""

    def __init__(self, *, children: bool = False) -> None:
        self.seconds = time.process_time()
        self.children: dict[int, float] = {}
        self.bytes = _bytes_moved()
        if children:
            import psutil

            with contextlib.suppress(psutil.Error, OSError):
                for child in psutil.Process().children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        self.children[child.pid] = sum(child.cpu_times()[:2])

    def shows_work_since(self, earlier: _Used, seconds: float) -> bool:
        known = earlier.children
        grown = sum(used - known[pid] for pid, used in self.children.items() if pid in known)
        if self.children and not known:
            # The next look compares with these.
            earlier.children = self.children
        worked = self.seconds - earlier.seconds + grown
        return worked > max(_LEAST_SECONDS, _LEAST_SHARE * seconds) or (
            self.bytes - earlier.bytes > _LEAST_BYTES * max(1.0, seconds)
        )


def _bytes_moved() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/self/io").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))
    return 0


def place_text(doing: Mapping[str, Any]) -> str:
    """Describe a report in words: ``in fit, epoch 1 of 3, step 5 of 81, waiting in TensorFlow``."""
    if doing.get("making"):
        return f"making {doing['making']}"
    words = [f"in {doing['call']}"] if doing.get("call") else ["outside of fit, evaluate, and predict"]
    for name in ("epoch", "step"):
        if doing.get(name) is not None:
            total = doing.get(f"{name}s")
            words.append(f"{name} {doing[name]}" + (f" of {total}" if total else ""))
    if doing.get("ended") is not None:
        words.append(f"its data ended after {doing['ended']} batches")
    library = doing.get("library") or "TensorFlow"
    words.append(f"inside a step or another {library} call" if doing.get("inside") else "between two steps")
    if not doing.get("call") and not doing.get("inside"):
        words[-1] = f"not in {library}"
    line = doing.get("line")
    return ", ".join(words) + (f" ({line})" if line else "")


def _after_fork() -> None:
    # A child process is not a worker.
    ACTIVITY.watched = False


ACTIVITY: Final = Activity()
os.register_at_fork(after_in_child=_after_fork)
