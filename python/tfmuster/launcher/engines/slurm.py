"""Run a job by Slurm: ``sbatch`` submits it, and inside an allocation ``srun`` starts the agents."""

from __future__ import annotations

import os
import re
import shlex
import signal
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...cluster.resolvers.slurm import SLURM
from ...errors import LaunchError, TfmusterError
from ...options import places
from ...options.hints import Hint
from ...system.ask import NoAnswerError, ask
from ...system.interpreter import python_executable
from ...tracking.failure.failure import Failure
from ...tracking.record.layout import PREEMPTED
from ...tracking.run import Run
from ...words import Words
from ..job import Job
from ..remote.engine_agents import AgentRequest
from .agent_command import AgentCommand
from .batch import BatchEngine, check_line
from .batch_commands import phases

_NO_ROOM = re.compile(
    "More processors requested|Requested node configuration|nodes? count|not available", re.IGNORECASE
)
#: Slurm signals the launcher, which is the batch script's own process, two minutes before the time is over,
#: or up to a minute earlier (https://slurm.schedmd.com/sbatch.html, --signal).
_NOTICE_SECONDS, _EARLY_SECONDS = 120, 60
_REQUEUE = ("--requeue", "--open-mode=append", f"--signal=B:USR1@{_NOTICE_SECONDS}")
#: The options for the limit, for a partition, for the processors of a task, and for another notice.
_LIMIT = re.compile(r"(?:^|\s)(?:--time[=\s]|-t\s*)(?P<value>[-:0-9]+)(?=\s|$)")
_PARTITION = re.compile(r"(?:^|\s)(?:--partition[=\s]|-p\s*)(?P<value>[^\s]+)")
_PROCESSORS = re.compile(r"(?:^|\s)(?:--cpus-per-task[=\s]|-c\s*)(?P<value>[0-9]+)(?=\s|$)")
_NOTICE = re.compile(r"(?:^|\s)--signal[=\s]\S*@(?P<value>[0-9]+)(?=\s|$)")
#: What ``srun`` gets for a step. TensorFlow has threads of its own for all cores of the job.
_STEP = ("--chdir=/", "--export=ALL", "--input=none", "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=1")
#: Slurm gives each task the GPUs that are its own, and only the task itself can tell which.
_WITH_GPUS = '"--gpus=${CUDA_VISIBLE_DEVICES:--1}"'
#: ``scancel`` asks all processes of a batch job to end, the launcher among them: only that one does as asked.
_FOR_THE_LAUNCHER = "trap '' TERM; "


def _last_of(option: re.Pattern[str], options: str, default: str) -> str:
    """Return the value that an option has the last time it is given."""
    return next((found["value"] for found in reversed(list(option.finditer(options)))), default)


def _seconds_in(text: str) -> int:
    """Return a time in Slurm's form, such as ``90``, ``1:30:00`` or ``2-12``, in seconds."""
    days, dash, rest = text.rpartition("-")
    numbers = [int(number or 0) for number in rest.split(":")]
    # Minutes come first, but before seconds and minutes, and after days, it is hours.
    units = (3600, 60, 1) if dash or len(numbers) == 3 else (60, 1)
    return int(days or 0) * 86_400 + sum(unit * number for unit, number in zip(units, numbers, strict=False))


@dataclass(frozen=True)
class Slurm(BatchEngine):
    """Has Slurm run a job. Inside an allocation the user's options are those of ``srun``."""

    where: places.Slurm = field(default_factory=places.Slurm)

    SYSTEM = SLURM
    SUBMIT, NUMBER = ("sbatch", "--parsable", "--export=ALL"), r"^\s*([0-9]+)\s*(?:;|$)"
    STATE, GONE = ("squeue", "--noheader", "--format=%T|%r", "--jobs"), "Invalid job id"
    PHASES = phases(waiting="PENDING CONFIGURING", over="none")
    REMOTE_SHELL, SERVER = ("srun",), "controller"
    INSTALL = "apt-get install slurm-client, on a machine of a Slurm cluster"
    CHECK = "`sinfo` says what there is to ask for."
    CHOOSING_HOSTS = Hint("backend_options", "--nodelist=node1,node2", "slurm")
    SHELL, MARK = "/bin/bash", "#SBATCH"
    ARRAY = r"-a\s|--array\b"

    def __post_init__(self) -> None:
        super().__post_init__()
        options = " ".join(self.where.backend_options)
        limit = _seconds_in(_last_of(_LIMIT, options, "0"))
        notice = int(_last_of(_NOTICE, options, str(_NOTICE_SECONDS)))
        if self.where.requeue and 0 < limit <= notice + _EARLY_SECONDS:
            raise LaunchError(
                "A job that Slurm requeues must have time to train before its notice.",
                found=f"a time limit of {limit} s, and a notice {notice} s before its end, or up to "
                f"{_EARLY_SECONDS} s earlier",
                fix=Words(
                    "Ask for more time ({}), or for a shorter notice ({}).",
                    Hint("backend_options", "--time=1:00:00", "slurm"),
                    Hint("backend_options", "--signal=B:USR1@30", "slurm"),
                ),
                reason="requeue",
            )

    def slots_inside(self) -> int | None:
        """See :class:`.batch.BatchEngine`. They are the tasks of the allocation."""
        tasks = os.environ.get("SLURM_NTASKS", "")
        return int(tasks) if tasks.isdigit() else None

    def directives(self, job: Job, log: Path | None) -> list[str]:
        """See :class:`.batch.BatchEngine`."""
        asked = {"job-name": job.run_name, "ntasks": str(len(job.kinds)), "chdir": os.getcwd()}
        if log is not None:
            # Slurm replaces what follows a percent sign.
            asked["output"] = str(log).replace("%", "%%")
        if job.gpus_per_worker:
            asked["gpus-per-task"] = str(job.gpus_per_worker)
        for name, value in asked.items():
            check_line(value, name, without="\\")
        lines = ['--{}="{}"'.format(name, value.replace('"', '\\"')) for name, value in asked.items()]
        # Without --no-requeue, a job would begin anew whose training has no checkpoints.
        requeue = _REQUEUE if self.where.requeue else ("--no-requeue",)
        return [*lines, *requeue, *self.where.backend_options]

    def check_room(self, job: Job) -> None:
        """See :class:`.batch.BatchEngine`. Slurm itself takes such a job into its queue."""
        options = " ".join(self.where.backend_options)
        wanted = _last_of(_PARTITION, options, os.environ.get("SBATCH_PARTITION", "")).split(",")
        needed = len(job.kinds) * int(_last_of(_PROCESSORS, options, "1"))
        answer = self.ask("sinfo", "--noheader", "--format=%P|%C")
        lines = answer.output.splitlines() if answer else []
        # The default partition has a star. Of allocated/idle/other/total, the last counts.
        totals = {
            name.rstrip("*"): int(counts.rpartition("/")[2])
            for name, _, counts in (line.strip().partition("|") for line in lines)
            if (name.rstrip("*") in wanted or (wanted == [""] and name.endswith("*")))
            and counts.rpartition("/")[2].isdigit()
        }
        if totals and needed > max(totals.values()):
            there = ", ".join(f"{name} has {total}" for name, total in totals.items())
            raise LaunchError(
                "A partition must have the processors for every task.",
                found=f"{needed} processors for {len(job.kinds)} tasks; {there}",
                fix=Words(
                    "Start fewer workers ({}), or choose another partition ({}); `sinfo` shows all.",
                    Hint("workers"),
                    Hint("backend_options", "--partition=NAME", "slurm"),
                ),
                reason="slots",
            )

    def enter(self, log: Path | None) -> list[str]:
        """Return no lines: the directives name the directory and the file."""
        return []

    def word_for(self, number: str, text: str) -> tuple[str, str]:
        """See :class:`.batch_commands.BatchCommands`."""
        word, _, why = text.strip().partition("|")
        return word or "none", "" if why == "None" else why

    def ending(self, number: str, host: str) -> str:
        """Return Slurm's word, such as TIMEOUT."""
        answer = self.ask("scontrol", "--oneliner", "show", "job", number)
        fields = dict(word.partition("=")[::2] for word in answer.output.split()) if answer else {}
        return fields.get("JobState", "")

    def run_inside(self, job: Job, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
        """See :class:`.batch.BatchEngine`. Put the job into the queue again if its time was over."""
        run, failure = super().run_inside(job, show=show, tell=tell)
        number = os.environ.get("SLURM_JOB_ID")
        status = run.status()
        # When Slurm itself takes the machines away, it sends SIGTERM, and then puts the job there itself.
        over = status["state"] == PREEMPTED and status["signal"] == signal.SIGUSR1
        if self.where.requeue and number and over:
            self.ask("scontrol", "requeue", number)
        return run, failure

    def start(self, request: AgentRequest) -> AgentCommand:
        """Have ``srun`` start agents in the allocation."""
        program = self.program("srun")
        agent = request.command(self.where.remote_python or python_executable(), rank_from=("SLURM_PROCID",))
        own_gpus = _WITH_GPUS if "SLURM_GPUS_PER_TASK" in os.environ else ""
        patient = _FOR_THE_LAUNCHER if os.environ.get("ENVIRONMENT") == "BATCH" else ""
        agent = ["sh", "-c", f'{patient}exec "$@" {own_gpus}', "sh", *agent]
        options = [f"--ntasks={request.count}", *_STEP]
        if "SLURM_STEP_ID" in os.environ:
            options.append("--overlap")
        if cpus := os.environ.get("SLURM_CPUS_PER_TASK"):
            options.append(f"--cpus-per-task={cpus}")
        options += [word for option in self.where.backend_options for word in shlex.split(option)]
        explain = partial(self.explain, request.count)
        return AgentCommand([program, *options, *agent], {**os.environ, **request.env}, request, explain)

    def explain(self, count: int, text: str, lines: str) -> TfmusterError:
        """See :class:`.batch.BatchEngine`."""
        errors = [line.strip() for line in text.splitlines() if "error:" in line]
        lines = "\n         ".join(errors[:4]) or lines
        if _NO_ROOM.search(text):
            return LaunchError(
                "The allocation must have room for every task.",
                found=f"{count} tasks; {lines}",
                fix=Words(
                    "Ask sbatch or salloc for more (--ntasks), or start fewer workers ({}).", Hint("workers")
                ),
                reason="slots",
            )
        return LaunchError(
            f"srun must start {count} processes.",
            found=lines,
            fix="See that `srun hostname` works in the same allocation.",
            reason="slurm",
        )

    def version(self, seconds: float) -> str:
        """Return which controller answers."""
        answer = ask("scontrol", "ping", seconds=seconds)
        up = [line for line in answer.output.splitlines() if " is UP" in line]
        if not up:
            raise NoAnswerError(answer.first_line)
        return up[0].strip()


make_engine, available = Slurm, Slurm().available
