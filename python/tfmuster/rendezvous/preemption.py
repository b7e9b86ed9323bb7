"""Preemption: let all tasks save and exit at the same point when one of them gets a shutdown signal.

A training that can be saved passes *points*: its beginning, the end of an execution of steps, the end of an
epoch. All tasks that train pass the same points in the same order.

1. A task that gets a signal, an order in the run directory, or the notice that its machine is about to be
   reclaimed, sends ``leave`` to the chief.
2. The chief sends ``leave`` to all tasks. Each answers with the number of points that it has passed, and from
   then on waits before it passes another one.
3. When all have answered, the chief names the first point that no task has passed (`SavingPoint`):
   ``leave-at``. All go there, save, and exit.

So no task ever enters a collective operation that another one does not enter. A task that has not exited when
its time is over ends without having saved.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import Final, NoReturn

from ..cluster.spec import training_tasks
from ..environment import NOTICE_COMMAND_VARIABLE, grace
from ..net.channel import Message
from ..options.hints import Hint
from ..system.embedded_r import leave_r
from ..system.process_end import exit_as
from ..system.say import say
from ..tracking.lifecycle.preemption import is_ending, note_saves, own_order
from ..tracking.live.states import State, say_state
from .chief.exchanges import Answers
from .task.control_channel import ControlChannel

#: Signals that ask a task to save and exit: of the system, of batch systems, and of people.
SIGNALS: Final = (signal.SIGTERM, signal.SIGUSR1)
_LOOK_SECONDS: Final = 0.5

#: Time between two runs of a notice command, and the most that an answer may take, in seconds.
ASK_SECONDS: Final = 5.0
#: How long a task that has saved waits for the others, in seconds.
_LINGER_SECONDS: Final = 10.0


class Preemption:
    """The points that this process passes, and whether it is to save and exit."""

    def __init__(self) -> None:
        #: The signal because of which the job exits; 0 while nobody has asked.
        self.signal = 0
        self._passed = 0
        self._at: float | None = None
        self._in_training = False
        self._exits = False
        self._changed = threading.Condition()
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._handled: list[int] = []

    def begins(self) -> None:
        """Note that a training begins that can be saved. From now on, signals ask the job to save and exit.

        Raises TfmusterError if ``TFMUSTER_GRACE`` is not a time.
        """
        grace()
        self._in_training = True
        note_saves(True)
        self._start_thread()
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # The program's own handler stays.
                if signal.getsignal(number) in (None, signal.SIG_DFL):
                    signal.signal(number, self._receive)
                    self._handled.append(number)

    def ends(self) -> None:
        """Note that the training has ended. Signals have their usual effect again."""
        self._in_training = False
        note_saves(False)
        self.forget()

    def forget(self) -> None:
        """Give signals their usual effect again."""
        for number in self._handled:
            if signal.getsignal(number) == self._receive:
                signal.signal(number, signal.SIG_DFL)
        self._handled.clear()

    def point(self) -> bool:
        """Pass a point of the training. Return whether all tasks save and exit here."""
        if not self._in_training:
            self.begins()  # another one, inside of this one, has ended
        with self._changed:
            if self.signal:
                # The others answer within milliseconds, and `_end_late` ends a process that waits in vain.
                self._changed.wait_for(lambda: self._at is not None)
            self._passed += 1
            return self._at is not None and self._passed >= self._at

    def exit(self, doing: State) -> NoReturn:
        """End this process, whose training was saved at `doing`, with 128 + the signal as its exit code."""
        self._exits = True
        say_state(doing)
        control = ControlChannel.current()
        if control is not None:
            control.done(linger=_LINGER_SECONDS)
        code = 128 + self.signal
        if "rpytools" in sys.modules:
            leave_r(code)
        raise SystemExit(code)

    def _receive(self, number: int, _: object) -> None:
        """Handle a signal. Nothing here may take a lock that the interrupted code may have."""
        # A second signal ends this process at once.
        for other in self._handled:
            signal.signal(other, signal.SIG_DFL)
        if is_ending() or ((control := ControlChannel.current()) is not None and control.first_failure):
            os.kill(os.getpid(), number)
        else:
            self._signals.put(number)

    def _start_thread(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._listen, name="tfmuster-preemption", daemon=True)
            self._thread.start()

    def _listen(self) -> None:
        """Wait for signals, orders and notices, and then for the end of the time to save."""
        number = 0
        notice = PreemptionNotice(os.environ.get(NOTICE_COMMAND_VARIABLE, ""))
        while not number:
            try:
                number = self._signals.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._in_training:
                    number = own_order() or (signal.SIGTERM if notice.given() else 0)
        if not self.signal:
            control = ControlChannel.current()
            if control is not None and control.active and len(training_tasks(control.task.cluster)) > 1:
                control.send({"type": "leave", "signal": number})
            else:
                with self._changed:
                    self.signal, self._at = number, self._passed + 1
                    self._changed.notify_all()
        threading.Event().wait(grace())
        self._end_late()

    def _end_late(self) -> None:
        if not self._exits and not is_ending():
            say(
                f"tfmuster: received {signal.Signals(self.signal or signal.SIGTERM).name}, but wrote no "
                f"checkpoint within {grace():g} s ({Hint('grace')})"
            )
        # A session such as Jupyter's survives SystemExit.
        exit_as(128 + (self.signal or signal.SIGTERM))

    def hear(self, control: ControlChannel) -> None:
        """Take the chief's messages from this control channel."""
        control.on["leave"] = self._answer
        control.on["leave-at"] = self._take_point
        control.on_failure(_restore_signals)

    def _answer(self, message: Message) -> None:
        with self._changed:
            self.signal = int(message["signal"])
            passed = self._passed
        control = ControlChannel.current()
        if control is not None:
            control.send({"type": "points", "points": passed})
        # It ends a process that does not exit in time.
        self._start_thread()
        self._signals.put(self.signal)

    def _take_point(self, message: Message) -> None:
        with self._changed:
            self._at = int(message["point"])
            self._changed.notify_all()


def _restore_signals(_: Message) -> None:
    """Let signals end this process at once: the job has failed, and nothing can be saved any more.

    Python's own handler would run only after TensorFlow returns to the main thread.
    """
    for number in SIGNALS:
        if signal.getsignal(number) == PREEMPTION._receive:
            ctypes.CDLL(None).signal(int(number), 0)


#: The preemption of this process.
PREEMPTION: Final = Preemption()
# A child process has no training, and ends when it is told to.
os.register_at_fork(after_in_child=PREEMPTION.forget)


class PreemptionNotice:
    """The notice that this machine is about to be reclaimed: a shell command that then exits with 0.

    The command "" stands for no command.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._asked: subprocess.Popen[bytes] | None = None
        self._begun = float("-inf")
        self._complained = False

    def given(self) -> bool:
        """Ask, if it is time, and return the last answer. Call it twice a second: it does not wait."""
        now = time.monotonic()
        if self._asked is not None:
            code = self._asked.poll()
            if code is None and now < self._begun + ASK_SECONDS:
                return False
            if code is None:
                with contextlib.suppress(OSError):
                    os.killpg(self._asked.pid, signal.SIGKILL)
                self._asked.wait()
                self._complain("no answer within 5 s")
            elif code in (126, 127):
                self._complain("the shell can't run it")
            self._asked = None
            if code == 0:
                return True
        if self._command and now >= self._begun + ASK_SECONDS:
            self._begun = now
            with contextlib.suppress(OSError):
                self._asked = subprocess.Popen(
                    ["/bin/sh", "-c", self._command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        return False

    def _complain(self, why: str) -> None:
        if not self._complained:
            self._complained = True
            say(f"tfmuster: the notice command says nothing: {why} ({self._command})")


class SavingPoint:
    """The chief's side: asks each training task how many points it passed, and names the first after all."""

    def __init__(self, tasks: Iterable[str]) -> None:
        self._staying = list(tasks)
        self._passed: dict[str, int] = {}
        self._asked = self._decided = False

    def ask(self, message: Message) -> Answers:
        """Take a task's report of a signal. The first one is sent to all tasks."""
        signal = int(message["signal"])
        if not 1 <= signal <= 64:
            raise ValueError("not the number of a signal")
        if self._asked:
            return []
        self._asked = True
        return self._to_all({"type": "leave", "signal": signal})

    def take(self, task: str, message: Message) -> Answers:
        """Take a task's number of points."""
        self._passed[task] = int(message["points"])
        return self._decide()

    def done(self, task: str) -> Answers:
        """Note that a task has finished its program, so that nobody waits for it."""
        if task in self._staying:
            self._staying.remove(task)
        return self._decide() if self._asked else []

    def _decide(self) -> Answers:
        known = all(task in self._passed for task in self._staying)
        if self._decided or not self._staying or not known:
            return []
        self._decided = True
        return self._to_all({"type": "leave-at", "point": 1 + max(self._passed.values())})

    def _to_all(self, message: Message) -> Answers:
        return [(task, message) for task in self._staying]
