"""Choose the hosts of each attempt of a job: some may be lost, come back, or be new."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from ...errors import LaunchError
from ...options.hints import Hint
from ...options.places import Ssh
from ...system.ask import NoAnswerError, ask
from ...system.say import say
from ...words import Words
from ..engines.hosts import Host, parse_discovered, place_tasks
from ..job import Job
from ..supervise.restarts import Attempt

#: What is found of a host that may be lost, and not only wrongly set up.
_LOST: Final = ("unreachable", "no-sshd", "name-unknown", "busy", "no-agent")
_PAUSE_SECONDS: Final = 1.0
#: How long a restart waits for lost hosts: without all of them the job ends, or it may go on with the others.
_REJOIN_SECONDS: Final = 120.0
_REJOIN_OR_LEAVE_OUT_SECONDS: Final = 30.0
#: How often it says so.
_SAY_SECONDS: Final = 10.0
#: How long the discovery command may take, in seconds.
_ANSWER_SECONDS: Final = 30.0

_Result = TypeVar("_Result")

#: Type, index and host of a task.
Task = tuple[str, int, Host]


class Membership:
    """Chooses the tasks of each attempt of a job. `hosts` are those at the start."""

    def __init__(self, where: Ssh, hosts: Sequence[Host], job: Job) -> None:
        self._least, self._every = where.min_workers, where.grow
        usual = _REJOIN_SECONDS if self._least is None else _REJOIN_OR_LEAVE_OUT_SECONDS
        self._seconds = usual if where.rejoin_timeout is None else where.rejoin_timeout
        self._command = where.hosts_from
        self._hosts = hosts
        self._job, self._all = job, len(job.kinds)
        #: Hosts that an earlier attempt has left out.
        self._gone: set[str] = set()
        #: Hosts that have taken part, and new ones that could not.
        self._tried: set[str] = set()
        self._unfit: set[str] = set()
        self._names: list[str] = []
        if self._least is not None:
            self._check(self._least)
        elif self._every is not None:
            raise _unfitting(Words("{} without {}", Hint("grow"), Hint("min_workers")))

    def _check(self, least: int) -> None:
        """Raise LaunchError if the settings do not fit the job."""
        job, setting = self._job, Hint("min_workers", least)
        if least > job.workers:
            raise _unfitting(Words("{} and {} workers", setting, job.workers))
        if not job.max_restarts:
            raise _unfitting(Words("{} without {}", setting, Hint("max_restarts")))
        if job.ps or job.chief or job.evaluator:
            raise _unfitting(Words("{} with a chief, an evaluator or parameter servers", Hint("min_workers")))

    def start(self, attempt: Attempt, run: Callable[[Sequence[Task]], _Result]) -> _Result:
        """Run an attempt with all hosts or, if hosts of a restart do not come back, maybe with the others.

        Raises LaunchError if a host can't take part, the hosts can't be discovered, or too few are left.
        """
        until = time.monotonic() + self._seconds
        next_word = 0.0
        while True:
            last = not attempt.number or time.monotonic() >= until
            try:
                tasks = self._tasks(attempt)
            except LaunchError:
                if last or self._command is None:
                    raise
                time.sleep(_PAUSE_SECONDS)
                continue
            try:
                result = run(tasks)
            except LaunchError as error:
                if attempt.number and self._leaves_out_new(error):
                    continue
                lost = _lost_hosts(error)
                if not attempt.number or not lost:
                    raise
                if last or lost <= self._gone:
                    return run(self._others(tasks, lost, error))
                if (now := time.monotonic()) >= next_word:
                    next_word = now + _SAY_SECONDS
                    who, seconds = ", ".join(sorted(lost)), max(0.0, until - now)
                    say(f"tfmuster: waiting for {who} to come back, at most {seconds:.0f} s more")
                time.sleep(_PAUSE_SECONDS)
            else:
                self._gone.clear()
                self._tried |= {host.name for *_, host in tasks}
                return result

    @contextlib.contextmanager
    def growth(self, tasks: Sequence[Task], reachable: Callable[[Host], bool]) -> Iterator[Callable[[], str]]:
        """Look for more hosts, if wanted, while an attempt with these tasks runs. Yield `new_hosts`."""
        if self._every is None:
            yield str
            return
        present = Counter(host.name for *_, host in tasks)
        growth = Growth(self._now, self._every, present, self._job.workers, reachable)
        growth.start()
        try:
            yield growth.new_hosts
        finally:
            growth.end()

    def _now(self) -> Sequence[Host]:
        return self._hosts if self._command is None else discovered_hosts(self._command)

    def _tasks(self, attempt: Attempt) -> list[Task]:
        """Place the tasks on the hosts of this moment."""
        if attempt.number:
            self._hosts = [host for host in self._now() if host.name not in self._unfit]
        sizes = {**self._job.sizes}
        if self._least is not None and self._command is not None:
            sizes["worker"] = min(sizes["worker"], sum(host.slots for host in self._hosts))
            if sizes["worker"] < self._least:
                hosts = ", ".join(host.name for host in self._hosts)
                raise self._too_few(sizes["worker"], f"on {hosts or 'no host'}")
        tasks = place_tasks(sizes, self._hosts)
        names = list(dict.fromkeys(host.name for *_, host in tasks))
        if self._names and names != self._names:
            say(
                f"tfmuster: the job continues with {len(tasks)} of {self._all} workers, on {', '.join(names)}"
            )
        self._names = names
        return tasks

    def _leaves_out_new(self, error: LaunchError) -> bool:
        """Leave out new hosts that can't take part: the job has worked without them."""
        findings = error.fields.get("findings") or []
        unfit = {str(finding["host"]) for finding in findings}
        if not unfit or unfit & self._tried or _lost_hosts(error):
            return False
        self._unfit |= unfit
        problems = "; ".join(f"{finding['host']}: {finding['message']}" for finding in findings)
        say(f"tfmuster: new hosts can't take part and are left out: {problems}")
        return True

    def _others(self, tasks: Sequence[Task], lost: set[str], error: LaunchError) -> list[Task]:
        left = [task for task in tasks if task[2].name not in lost]
        names = ", ".join(sorted(lost))
        if self._least is None:
            raise error
        if len(left) < self._least:
            raise self._too_few(len(left), f"lost: {names}") from error
        self._gone = lost
        say(f"tfmuster: {names} lost; the job continues with {len(left)} of {self._all} workers")
        return [(kind, index, host) for index, (kind, _, host) in enumerate(left)]

    def _too_few(self, count: int, about: str) -> LaunchError:
        return LaunchError(
            "Too few workers are left.",
            found=f"{count} of {self._all}; {self._least} are needed (min_workers); {about}",
            fix="Launch the job with other hosts and the same run directory. It resumes from its newest "
            "checkpoint.",
            reason="min-workers",
        )


def _unfitting(found: str) -> LaunchError:
    return LaunchError(
        Words("{} is for jobs that have only workers, and that may be restarted.", Hint("min_workers")),
        found=found,
        fix=Words(
            "Choose {} from 1 to the number of workers, and add {}.",
            Hint("min_workers"),
            Hint("max_restarts"),
        ),
        reason="min-workers",
    )


def _lost_hosts(error: LaunchError) -> set[str]:
    """Return the hosts that an error of hosts says are lost; none if others can't take part either."""
    findings = error.fields.get("findings") or []
    if any(finding["code"] not in _LOST for finding in findings):
        return set()
    return {str(finding["host"]) for finding in findings}


def discovered_hosts(command: str) -> tuple[Host, ...]:
    """Return the hosts that a shell command prints, if any. Raises LaunchError if that fails."""
    problem = None
    try:
        answer = ask("sh", "-c", command, seconds=_ANSWER_SECONDS)
        if not answer.code:
            return parse_discovered(answer.output.splitlines())
        last_line = (answer.errors.strip() or answer.output.strip() or "no output").splitlines()[-1]
        problem = f"exit code {answer.code}: {last_line[:200]}"
    except (NoAnswerError, LaunchError) as error:
        problem = (error.found or "nothing") if isinstance(error, LaunchError) else str(error)
    raise LaunchError(
        "The hosts of the discovery command can't be used.",
        found=f"{problem}; the command: {command}"[:600],
        fix="Let it print a line host:slots for each host, such as node1:2, and exit with 0.",
        reason="hosts-from",
    )


class Growth(threading.Thread):
    """Asks for hosts every few seconds, until a job that runs could have more workers on some of them.

    `hosts` returns the hosts of the moment; a LaunchError is printed. `present` is the number of workers on
    each host of the attempt that runs, `most` the number that the job may have. `reachable` returns whether a
    host can be asked to take part.
    """

    def __init__(
        self,
        hosts: Callable[[], Sequence[Host]],
        every: float,
        present: Mapping[str, int],
        most: int,
        reachable: Callable[[Host], bool],
    ) -> None:
        super().__init__(name="tfmuster-growth", daemon=True)
        self._hosts, self._every, self._most, self._reachable = hosts, every, most, reachable
        self._present = present
        self._ended = threading.Event()
        self._new_hosts = ""

    def new_hosts(self) -> str:
        """Return the names of the hosts with new slots, or nothing."""
        return self._new_hosts

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def run(self) -> None:
        """Ask until there are new slots."""
        last_problem = ""
        while not self._new_hosts and not self._ended.wait(self._every):
            try:
                hosts = self._hosts()
            except LaunchError as error:
                if last_problem != (problem := f"tfmuster: {error.message.rstrip('.')}: {error.found}"):
                    say(problem)
                last_problem = problem
                continue
            self._new_hosts = ", ".join(host.name for host in self._more(hosts) if self._reachable(host))

    def _more(self, hosts: Sequence[Host]) -> list[Host]:
        """Return the hosts with new slots, unless there are others fewer."""
        listed = {host.name: host.slots for host in hosts}
        if any(listed.get(name, 0) < count for name, count in self._present.items()):
            # A host that is not listed any more still works. Its loss is a failure, if it comes.
            return []
        if sum(self._present.values()) >= self._most:
            return []
        return [host for host in hosts if host.slots > self._present.get(host.name, 0)]
