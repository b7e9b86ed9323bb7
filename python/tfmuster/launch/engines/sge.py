"""Run a job by Sun Grid Engine: ``qsub -pe`` submits it, and ``qrsh -inherit`` starts an agent on each slot.

For all of its descendants: Son of Grid Engine, Open Grid Scheduler, Univa and Altair Grid Engine. Commands
and variables are those of qsub(1), qrsh(1) and sge_pe(5).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...cluster.resolvers import sge as resolver
from ...errors import LaunchError, TfmusterError
from ...options import table
from ...options.hints import Hint
from ...runs.failure import Failure
from ...runs.run import Run
from ...system.ask import NoAnswerError, ask
from ...words import Words
from ..job import Job
from ..remote.gather import AgentRequest, run_placed
from .agent_command import CommandPerAgent
from .base import UnavailableError, answer_of, find_program
from .batch import BatchEngine, BatchRequest
from .batch_follow import JobState, Phase

_NAMED = Hint("backend_options", "-pe NAME", "sge")
#: With -notify, what announces the end of a job, and of its soft limits.
_WARNINGS = ("USR1", "USR2", "XCPU")
_NAME_LENGTH = 100
_TURNED_OFF = "information is turned off"
_ENVIRONMENT = re.compile(r"(?:^|\s)-pe(?:\s+(?P<name>[^\s-]\S*))?(?:\s+(?P<slots>[0-9][-0-9]*))?(?=\s|$)")
#: How long the accounting may take to have a job that is over, and how long to be searched, seconds.
_ACCOUNTING_SECONDS, _SEARCH_SECONDS = 5.0, 30.0


@dataclass(frozen=True)
class Sge(BatchEngine):
    """Has Grid Engine run a job."""

    NAME, TITLE = "sge", "Grid Engine"
    COMMANDS = ("qsub", "qstat", "qdel", "qconf")
    SUBMIT, CANCEL = ("qsub", "-terse"), "qdel"
    CHECK = "`qconf -spl` names its parallel environments, `qstat -f` shows its queues."
    CHOOSING_HOSTS = Hint("backend_options", "-l hostname=node1|node2", "sge")
    batch_job = staticmethod(resolver.batch_job)

    def slots_inside(self, environ: Mapping[str, str]) -> int | None:
        """The slots of the job."""
        return len(resolver.slot_hosts(environ))

    def directives(self, request: BatchRequest) -> list[str]:
        """See :class:`.batch.BatchEngine`."""
        name, options = _parallel_environment(self.where.backend_options, request.tasks)
        lines = [
            "-S /bin/sh",
            "-cwd",
            "-V",
            "-r n",
            "-notify",
            f"-N {request.safe_name(_NAME_LENGTH)}",
            "-j y",
        ]
        if request.log is not None:
            # A colon or a comma in a path has a meaning for qsub: the script writes there itself.
            lines.append("-o /dev/null")
        if name is not None:
            lines.append(f"-pe {name} {request.tasks}")
        return [f"#$ {line}" for line in (*lines, *options)]

    def body(self, command: Sequence[str]) -> list[str]:
        """The launcher in the background, and in front a shell that passes on what announces the end.

        Grid Engine ends a job by SIGKILL, and with -notify sends SIGUSR2 some time before.
        """
        passed = " ".join(_WARNINGS)
        return [
            f"(trap '' {passed}; exec {shlex.join(command)}) &",
            "launcher=$!",
            f"trap 'kill $launcher' {passed}",
            "wait $launcher; code=$?",
            # A signal ends the waiting, and not the launcher.
            "while kill -0 $launcher 2>/dev/null; do wait $launcher; code=$?; done",
            "exit $code",
        ]

    def number_of(self, answer: str) -> str | None:
        """See :class:`.batch.BatchEngine`."""
        # Messages of the cluster's own may come before it.
        words = answer.split()
        return words[-1] if words and words[-1].isdigit() else None

    def state(self, number: str) -> JobState:
        """See :class:`.batch.BatchEngine`."""
        answer = self.ask("qstat", "-j", number)
        if answer is None or (answer.code and "do not exist" not in answer.errors + answer.output):
            return JobState(Phase.UNKNOWN)
        if answer.code:
            return JobState(Phase.OVER)
        # What the job's variables hold comes before that, and may look like anything.
        _, _, text = answer.output.rpartition("\njob_type:")
        said = [line.partition(":")[::2] for line in text.splitlines()]
        known = {name.split()[0]: value.strip() for name, value in said if name.strip()}
        if "error" in known:
            return JobState(Phase.STUCK, known["error"])
        if "usage" in known or "exec_host_list" in known:
            return JobState(Phase.RUNNING)
        why = known.get("scheduling", "")
        return JobState(Phase.WAITING, "" if _TURNED_OFF in why else why)

    def ending(self, number: str, host: str) -> str:
        """What the accounting says, if it can be read here."""
        unknown = f"`qacct -j {number}` says why, where the accounting can be read"
        if shutil.which("qacct") is None:
            return unknown
        end = time.monotonic() + _ACCOUNTING_SECONDS
        while True:
            answer = self.ask("qacct", "-j", number, seconds=_SEARCH_SECONDS)
            found = _entry(answer.output if answer and not answer.code else "", host)
            if found or answer is None or time.monotonic() > end:
                break
            time.sleep(0.2)
        named = [(name, found[name]) for name in ("failed", "exit_status") if found.get(name, "0") != "0"]
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named) or unknown

    def run_inside(self, job: Job, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
        """See :class:`.batch.BatchEngine`."""
        return run_placed(job, self, show=show, tell=tell)

    def start(self, request: AgentRequest) -> CommandPerAgent:
        """Have an agent started on each slot, in the order of ``$PE_HOSTFILE``."""
        return self.agents_on_slots(
            request,
            resolver.slot_hosts(os.environ),
            (self.program("qrsh"), "-inherit"),
            more="Ask qsub for more (-pe NAME N)",
            explain=partial(_explain, request.count),
            ignored=_WARNINGS,
        )


def of(where: table.Sge) -> Sge:
    """What Grid Engine is to do. Raises LaunchError if something has no meaning for it."""
    return Sge(where)


def available(seconds: float) -> str:
    """Its version and its parallel environments, if its qmaster answers."""
    for name in (*Sge.COMMANDS, "qrsh"):
        find_program(name, "apt-get install gridengine-client, on a machine of a Grid Engine cluster")
    # It ends with an error where no cluster is configured.
    version = answer_of("qstat", "-help", seconds=seconds).first_line
    try:
        answer = ask("qconf", "-spl", seconds=seconds)
    except NoAnswerError as error:
        raise UnavailableError(f"qsub is here, but no qmaster answers ({error})") from error
    if answer.code and "no parallel environment" not in answer.errors:
        raise UnavailableError(f"qsub is here, but no qmaster answers ({answer.first_line})")
    names = ", ".join(answer.output.split()) or "none"
    return f"{version}, parallel environments: {names}"


def _parallel_environment(options: Sequence[str], tasks: int) -> tuple[str | None, list[str]]:
    """The parallel environment of a job, and the options without it.

    It is the one that an option names, or the only one that there is. None: a single task needs none.
    """
    named = [found for option in options for found in _ENVIRONMENT.finditer(option)]
    others = [_ENVIRONMENT.sub("", option) for option in options]
    others = [option for option in others if option.strip()]
    if named:
        names = {found["name"] for found in named}
        if (
            len(names) > 1
            or None in names
            or any(found["slots"] not in (None, str(tasks)) for found in named)
        ):
            raise LaunchError(
                "The option -pe names the parallel environment; the number of slots is that of the tasks.",
                found=f"{' and '.join(found[0].strip() for found in named)}, for {tasks} tasks",
                fix=Words("Give one name and no number: {}.", _NAMED),
                reason="batch",
            )
        return str(names.pop()), others
    answer = Sge.ask("qconf", "-spl")
    there = answer.output.split() if answer and not answer.code else []
    if len(there) == 1:
        return there[0], others
    if tasks == 1:
        return None, others
    said = answer.errors.strip() if answer else "qconf does not answer"
    raise LaunchError(
        "Grid Engine must know in which parallel environment the tasks are to run.",
        found=f"there are {', '.join(there)}" if there else said or "there is no parallel environment",
        fix=Words("Name one: {}. `qconf -sp NAME` shows how it places tasks.", _NAMED),
        reason="batch",
    )


def _entry(text: str, host: str) -> dict[str, str]:
    """The job's own entry in what qacct prints; empty, if there is none yet.

    Others are of the tasks that `qrsh -inherit` has started, none of them on the host of the launcher.
    """
    entries = []
    for part in re.split("^=+$", text, flags=re.MULTILINE):
        said = [line.split(None, 1) for line in part.splitlines()]
        entries.append({words[0]: " ".join(words[1].split()) for words in said if len(words) == 2})
    name = host.partition(".")[0]
    own = [entry for entry in entries if entry and name in ("", entry.get("hostname", "").partition(".")[0])]
    return own[-1] if own else {}


def _explain(count: int, text: str, lines: str) -> TfmusterError:
    """Why qrsh has not started all agents."""
    if "didn't accept task" in text:
        return LaunchError(
            "The parallel environment must let `qrsh -inherit` start a task on each slot.",
            found=lines,
            fix="Choose one with `control_slaves TRUE` (`qconf -sp NAME`), and run one launcher in a job.",
            reason="batch",
        )
    return LaunchError(
        f"Grid Engine must start {count} processes.",
        found=lines,
        fix="See that `qrsh -inherit HOST hostname` works in a job, with a host of its $PE_HOSTFILE.",
        reason="batch",
    )
