"""Start a job's processes, show and keep their output, and end all when one fails or all have finished.

The earliest failure is reported as the cause. A worker whose peer has gone fails later, with an error that
does not name the cause. Everything runs in the caller's thread, because R accepts output only from there.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...rendezvous.failures import repeats_failure
from ...system.process_end import SHUTDOWN
from ...system.processes import (
    adopting_orphans,
    dismiss_guard,
    end_job,
    guard_session,
    look_at_orphans,
    start_guard,
    stopped_trees,
)
from ...system.tensorflow_import import HAVE_GPU
from ...system.terminal_text import is_chatter
from ...tracking.failure.failure import Failure, not_writable
from ...tracking.lifecycle.preemption import can_save, forget_orders, note_ending
from ...tracking.live.stacks import forget_busy_stacks, keep_busy_stacks
from ...tracking.live.states import forget_states, note_phase, read_serving, read_states
from ...tracking.live.status import BEAT_SECONDS
from ...tracking.record.layout import PREEMPTED, RESTARTING
from ...tracking.record.recording import record_end, record_status
from ...tracking.run import Run
from ...tracking.show.fold import Fold
from ...tracking.show.report import ReportRenewal
from ..capacity import at_once, seconds_to_wait
from .display import display
from .restarts import Attempt, PreemptionOrders
from .spares import Waiting
from .time_limits import SUPERVISOR
from .worker_process import Placement, WorkerProcess, first_failure, signal_of, start_process
from .worker_table import Row

_LOOK_SECONDS = 0.1
#: After how many seconds a job has started at the latest.
_STARTED_SECONDS = 30.0
#: How long tasks that serve others may take to end by themselves, in seconds.
_SERVED_SECONDS = 20.0


class Supervisor:
    """Runs one attempt of a job, whose run gets logs, status and error.

    `show` is that of engines, and `new_hosts` that of :class:`.restarts.PreemptionOrders`. `spares` wait to
    become the workers, and those of the next attempt.
    """

    def __init__(
        self,
        attempt: Attempt,
        run: Run,
        placements: Sequence[Placement],
        *,
        show: str,
        new_hosts: Callable[[], str] = str,
        spares: Waiting | None,
    ) -> None:
        self._attempt = attempt
        self._job = attempt.name
        self._run = run
        self._placements = placements
        self._show = show
        self._interrupted = False
        tasks = [placement.task for placement in placements]
        self._fold = Fold(tasks, all_output=show != "all")
        chief = next((placement.task for placement in placements if placement.is_chief), "chief")
        self._report = ReportRenewal(run)
        self._display = display(show, run.path, f"{chief:<{max(map(len, tasks))}} | ")
        self._workers: list[WorkerProcess] = []
        self._selector = selectors.DefaultSelector()
        self._disk_error: OSError | None = None
        self._preemption = PreemptionOrders(run, new_hosts)
        self._spares = spares
        self._noted: dict[str, Any] = {}
        self._next_beat = 0.0
        self._begun = time.monotonic()
        self._prepared = False

    @adopting_orphans()
    def supervise(self) -> Failure | None:
        """Start all processes, watch them, and end them. Return the first failure, or None.

        KeyboardInterrupt ends the job. A second one does not wait for processes that do not respond.
        """
        guard = self._guard = start_guard(self._job)
        state = "interrupted"
        failure = None
        try:
            forget_states(self._run.path)
            forget_orders(self._run.path)
            self._start_all()
            try:
                record_status(self._run.path, state="running", tasks=self._tasks())
            except OSError as full:
                raise not_writable(self._run.path, full) from full
            # A session may have had another job, which was saved.
            SHUTDOWN.signal, SHUTDOWN.can_save = 0, partial(can_save, self._run.path)
            self._watch()
            failure = first_failure(self._workers)
            if failure is not None and SHUTDOWN.signal and not failure.error:
                # Whatever takes the machine away ends the workers, too.
                raise KeyboardInterrupt
            left = any(worker.left for worker in self._workers)
            more = RESTARTING if self._preemption.growing else PREEMPTED
            state = "failed" if failure else more if left else "done"
        finally:
            SHUTDOWN.can_save = None
            note_ending(self._run.path)
            keep_busy_stacks(self._run.path)
            self._end()
            forget_orders(self._run.path)
            forget_busy_stacks(self._run.path)
            if failure is not None:
                failure = first_failure(self._workers, until=failure.cause_time) or failure
                if not (self._interrupted or SHUTDOWN.signal) and self._attempt.another_after(failure):
                    state = RESTARTING
            # On a full disk, nothing can be recorded, but the error with the reason is already raised.
            with contextlib.suppress(OSError):
                if state == RESTARTING:
                    record_status(self._run.path, state=state, tasks=self._tasks())
                else:
                    error = failure.to_dict() if failure else None
                    fields = {"signal": signal_of(self._workers)} if state == PREEMPTED else {}
                    record_end(self._run.path, state, error, tasks=self._tasks(), **fields)
                    self._report.renew(at_once=True)
            dismiss_guard(guard)
            if self._spares is not None:
                self._spares.refill(self._placements)
        return failure

    def _start_all(self) -> None:
        """Start all processes, unless one fails before. Many on one machine start a few at a time."""
        seconds = seconds_to_wait(self._placements)
        for placement in self._placements:
            until = time.monotonic() + seconds
            while time.monotonic() < until and self._silent(placement.host) >= at_once(placement):
                self._pump(_LOOK_SECONDS)
                self._collect()
            if any(worker.failed for worker in self._workers):
                return
            self._workers.append(self._start(placement))

    def _silent(self, host: str) -> int:
        """Return how many processes of a host have printed no line, and do no more than to import."""
        states = read_states(self._run.path)
        there = [worker for worker in self._workers if worker.placement.host == host]
        return sum(worker.doing(states).phase in ("starting", "importing") for worker in there)

    def _start(self, placement: Placement) -> WorkerProcess:
        worker = WorkerProcess.started(placement, self._run.path, self._process_of)
        note_phase(self._run.path, placement.task, "started")
        assert worker.process.stdout is not None
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _process_of(self, placement: Placement) -> subprocess.Popen[bytes]:
        if placement.start is not None:
            return placement.start()
        process = (self._spares and self._spares.take(placement)) or start_process(placement)
        guard_session(self._guard, self._job, process.pid)
        return process

    def _watch(self) -> None:
        """Wait until a worker fails, or those that train have finished and those that serve have ended."""
        next_look = served = 0.0
        while waited_for := [worker for worker in self._workers if worker.code is None]:
            if self._only_serve(waited_for):
                served = served or time.monotonic() + _SERVED_SECONDS
                if time.monotonic() > served or not any(worker.serves for worker in waited_for):
                    return
            self._pump(_LOOK_SECONDS)
            self._collect()
            self._preemption.look()
            if time.monotonic() > next_look:
                begun = time.thread_time()
                self._look()
                # Looking at all processes is slow on a machine with many thousands.
                next_look = time.monotonic() + max(1.0, 50 * (time.thread_time() - begun))
                self._report.renew()
                self._prepare_spares()
            if time.monotonic() > self._next_beat:
                self._note(self._tasks())
            if self._disk_error is not None:
                raise not_writable(self._run.path, self._disk_error)
            if any(worker.failed or worker.lingers() or worker.frozen for worker in self._workers):
                return

    def _look(self) -> None:
        """Find stopped processes, on this machine and as other hosts have reported."""
        stopped = stopped_trees({worker.process.pid for worker in self._workers if worker.code is None})
        for worker in self._workers:
            worker.look(stopped)
            self._show_lines(worker, worker.held.overdue(worker.note()))
        look_at_orphans()
        if self._noted != (tasks := self._tasks()):
            self._note(tasks)

    def _prepare_spares(self) -> None:
        """Start spare processes for the next attempt, once their imports no longer delay this one."""
        if self._spares is None or self._prepared:
            return
        states = read_states(self._run.path)
        trains = all(
            worker.serving or ((state := states.get(worker.task)) is not None and state.epoch is not None)
            for worker in self._workers
        )
        # A program without fit does not say when it trains.
        if trains or time.monotonic() - self._begun > _STARTED_SECONDS:
            self._prepared = True
            self._spares.prepare(self._placements)

    def _collect(self) -> None:
        changed = False
        for worker in self._workers:
            if worker.code is None and (code := worker.process.poll()) is not None:
                worker.code, worker.ended = code, time.time()
                note_phase(self._run.path, worker.task, worker.state())
                state = read_states(self._run.path).get(worker.task)
                worker.serves = state is not None and state.serves
                worker.left = state is not None and state.phase == PREEMPTED
                changed = True
                if worker.failed and worker.serves and not worker.serving:
                    self._continue_without(worker)
        if changed:
            self._note(self._tasks())

    def _only_serve(self, workers: Sequence[WorkerProcess]) -> bool:
        """Return whether no task that trains is left."""
        if any(worker.code is None and worker.placement.is_chief for worker in self._workers):
            return False
        serving = read_serving(self._run.path)
        for worker in workers:
            worker.serves = worker.task in serving
        return all(worker.serving or worker.serves for worker in workers)

    def _continue_without(self, worker: WorkerProcess) -> None:
        """Continue without a lost worker that only served. The tasks that it served handle the loss."""
        failure = worker.failure()
        assert failure is not None
        worker.lost = True
        if self._show != "nothing":
            self._display.line(f"tfmuster: {failure.headline().rstrip('.')}; the job may continue without it")

    def _pump(self, seconds: float) -> None:
        """Forward the workers' output, waiting up to `seconds` for it."""
        end = time.monotonic() + seconds
        if not self._selector.get_map():
            time.sleep(seconds)
        for key, _ in self._selector.select(seconds):
            worker = key.data
            data = os.read(key.fd, 65_536)
            if data:
                self._keep(worker, data)
                self._tell(worker, worker.lines.feed(data))
            else:
                self._selector.unregister(key.fileobj)
                self._tell(worker, worker.lines.end())
                self._fold.end(worker.task)
                # The process is about to end, and a short wait is cheaper than another look at all processes.
                while worker.process.poll() is None and time.monotonic() < end:
                    time.sleep(0.002)
        self._show_due()
        self._display.look(self._rows)

    def _keep(self, worker: WorkerProcess, data: bytes) -> None:
        try:
            worker.log.write(data)
            worker.log.flush()
        except OSError as error:
            self._disk_error = self._disk_error or error

    def _note(self, tasks: Mapping[str, object]) -> None:
        self._next_beat = time.monotonic() + BEAT_SECONDS
        try:
            record_status(self._run.path, tasks=tasks)
        except OSError as error:
            self._disk_error = self._disk_error or error

    def _tell(self, worker: WorkerProcess, lines: list[str]) -> None:
        if "TF_CPP_MIN_LOG_LEVEL" not in worker.placement.env:
            lines = [line for line in lines if not is_chatter(line, gpu=HAVE_GPU)]
        lines = [line for line in lines if not repeats_failure(line)]
        worker.last_lines.extend(lines)
        self._show_lines(worker, worker.held.pass_on(lines))

    def _show_lines(self, worker: WorkerProcess, lines: list[str]) -> None:
        if self._show in ("all", "each") or (self._show == "chief" and worker.placement.is_chief):
            self._fold.add(worker.task, lines)

    def _show_due(self, *, last: bool = False) -> None:
        for line in self._fold.due(last=last):
            self._display.line(line)

    def _end(self) -> None:
        """End every process of the job, and read its remaining output."""
        self._collect()
        for worker in self._workers:
            worker.dismissed = worker.code is None
        try:
            end_job(self._job, grace=SUPERVISOR.seconds, wait=self._pump)
        except KeyboardInterrupt:
            self._interrupted = True
            end_job(self._job, grace=0.0)
        while self._selector.get_map() and self._selector.select(0):
            self._pump(0)
        for worker in self._workers:
            # A process that is exiting no longer has an environment, so the search by name misses it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(timeout=1)
        self._collect()
        for worker in self._workers:
            self._tell(worker, worker.lines.end())
            self._show_lines(worker, worker.held.end(worker.note()))
            with contextlib.suppress(OSError):
                worker.log.write(worker.unprinted())
                worker.log.close()
            if worker.process.stdout is not None:
                worker.process.stdout.close()
        self._selector.close()
        self._show_due(last=True)
        self._display.close()

    def _rows(self) -> list[Row]:
        states = read_states(self._run.path)
        return [(worker.task, worker.host, worker.doing(states)) for worker in self._workers]

    def _tasks(self) -> dict[str, Any]:
        """Return the entries of the tasks in the status file."""
        self._noted = {worker.task: worker.status() for worker in self._workers}
        return self._noted
