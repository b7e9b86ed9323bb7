"""Follow on the chief what every task that trains does: exchanges, and tasks that the others wait for."""

from __future__ import annotations

from typing import Any, Final

from ...cluster.spec import Task, training_tasks
from ...environment import stall_timeout
from ...net.channel import Message
from ...system.terminal_text import bounded_text
from ..failures import STALLED, Silence, earliest
from ..preemption import SavingPoint
from .exchanges import Answers, Exchanges
from .roster import Participant
from .stalls import TaskReport, cannot_come, find_stall

#: Kinds of messages for the watch.
KINDS: Final = ("agree", "doing", "leave", "points")
#: A task that has not reported for so long does not respond, in seconds.
_SILENT_SECONDS: Final = 5.0
#: Texts of a report, and how long they may be.
_TEXTS: Final = {"call": 40, "library": 40, "making": 200, "line": 200}
_NUMBERS: Final = ("executions", "unchanged", "still", "epoch", "epochs", "step", "steps", "ended")


class Watch:
    """What the chief knows of the tasks that train."""

    def __init__(self, chief: Task) -> None:
        trainers = [task.name for task in training_tasks(chief.cluster)]
        self.reports = {name: TaskReport(name) for name in trainers}
        self._exchanges = Exchanges(trainers)
        self._saving_point = SavingPoint(trainers)
        self._limit = stall_timeout()
        self._silences: dict[str, Silence] = {}
        self._beat = 0.0

    def tick(self) -> float:
        """Return after how many seconds to look again."""
        return 0.5 if any(report.doing for report in self.reports.values()) or self._exchanges.open else 5.0

    def beat_due(self, now: float) -> bool:
        """Return whether to send every task a sign of life."""
        if now < self._beat or not self._silences:
            return False
        # A thousand tasks must not keep the chief busy.
        self._beat = now + max(2.0, len(self.reports) / 50)
        return True

    def handle(self, participant: Participant, message: Message, now: float) -> Answers:
        """Take a message of a task. Return the answers to send, by task."""
        report = self.reports[participant.name]
        if message["type"] == "leave":
            return self._saving_point.ask(message)
        if message["type"] == "points":
            return self._saving_point.take(report.task, message)
        report.host, report.pid = participant.host, participant.pid
        report.doing, report.heard = _checked(message["doing"]), now
        self._silences[report.task] = Silence(report.host, report.pid, now)
        if message["type"] == "doing":
            return self._answered(self._hopeless())
        report.asked, report.about = now, bounded_text(message["about"], 40)
        return self._answered(self._exchanges.offer(report.task, message, now) or self._hopeless())

    def done(self, participant: Participant, message: Message, now: float) -> Answers:
        """Note that a task has finished its program."""
        if (report := self.reports.get(participant.name)) is not None:
            report.host, report.pid = participant.host, participant.pid
            # Its latest report may be older than its last execution.
            report.doing, report.heard, report.done = _checked(message["doing"]), now, True
            self._silences.pop(report.task, None)
        return self._saving_point.done(participant.name) + self._answered(self._hopeless())

    def look(self, now: float) -> tuple[Answers, Message | None]:
        """Return the answers that are due, and the failure to send to all tasks if the job stalls."""
        due = self._answered(self._exchanges.overdue(now, self._doing))
        for task, silence in self._silences.items():
            report = self.reports[task]
            if now - report.heard > _SILENT_SECONDS and silence.seconds(now) < _SILENT_SECONDS:
                # It sends nothing, but works.
                report.heard, report.doing["still"], report.doing["unchanged"] = now, 0.0, 0.0
        stall = find_stall(self.reports, self._limit, now)
        if stall is None:
            return due, None
        awaited = stall.awaited[0]
        process = {"task": awaited.task, "host": awaited.host, "pid": awaited.pid}
        return due, earliest(None, process, {"kind": STALLED, "message": stall.message, "age": 0.0})

    def _hopeless(self) -> Answers:
        """End exchanges to which a task can't come."""
        answers: Answers = []
        for exchange in list(self._exchanges.open.values()):
            waiting = [self.reports[task] for task in exchange.abouts]
            if any(cannot_come(self.reports[task], waiting) for task in self._exchanges.absent(exchange)):
                answers += self._exchanges.give_up(exchange, self._doing)
        return answers

    def _answered(self, answers: Answers) -> Answers:
        for task, _ in answers:
            self.reports[task].asked = None
        return answers

    def _doing(self, task: str) -> str:
        return self.reports[task].text()


def _checked(doing: object) -> dict[str, Any]:
    """Return a report with bounded texts. Raises ValueError if it is malformed."""
    if not isinstance(doing, dict):
        raise ValueError("not a report")
    known: dict[str, Any] = {name: float(doing[name]) for name in _NUMBERS if name in doing}
    known |= {name: int(known[name]) for name in known if name not in ("unchanged", "still")}
    texts = {name: bounded_text(doing.get(name) or "", length) for name, length in _TEXTS.items()}
    return {**known, **texts, "inside": bool(doing.get("inside"))}
