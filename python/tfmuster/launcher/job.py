"""A job: its settings, the environment of its workers, and the run that its first attempt makes."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..cluster.spec import Cluster
from ..environment import (
    ALLOW_NESTED_VARIABLE,
    DISTRIBUTE_VARIABLE,
    GRACE_VARIABLE,
    HASH_SEED,
    INDEPENDENT_VARIABLE,
    JOB_VARIABLE,
    KERAS_COMPAT_VARIABLE,
    LARGEST_SEED,
    NESTED_VARIABLE,
    NOTICE_COMMAND_VARIABLE,
    SCALE_BATCH_VARIABLE,
    SEED_VARIABLE,
    STALL_TIMEOUT_VARIABLE,
    START_TIMEOUT_VARIABLE,
    SUBMITTED_VARIABLE,
    VERIFY_VARIABLE,
    given_hash_seed,
    given_seed,
    grace,
    is_on,
    stall_timeout,
    start_timeout,
)
from ..errors import LaunchError
from ..options.hints import Hint, Launch
from ..options.places import Place
from ..options.table import ROWS, Control, Plain
from ..system.terminal_text import output_encoding
from ..system.user_code import user_line
from ..tracking.lifecycle.beginning import new_run, record_git
from ..tracking.lifecycle.resuming import record_launch, resumed_info
from ..tracking.record.layout import CALL
from ..tracking.record.recording import record_info
from ..tracking.run import Run
from ..words import FACE_VARIABLE, Code, Words, face, language
from .command import command_name, script_of
from .supervise.restarts import Attempt

#: Fields of `Job` that switch something on in every worker, and the variables that do so.
_SWITCHES = {
    "independent": INDEPENDENT_VARIABLE,
    "distribute": DISTRIBUTE_VARIABLE,
    "scale_batch": SCALE_BATCH_VARIABLE,
}
#: Other fields that workers read, and the variables that have their values.
_VALUES = {
    "start_timeout": START_TIMEOUT_VARIABLE,
    "stall_timeout": STALL_TIMEOUT_VARIABLE,
    "grace": GRACE_VARIABLE,
    "notice_command": NOTICE_COMMAND_VARIABLE,
    "verify": VERIFY_VARIABLE,
}


def seed_for(seed: int | None, run_dir: str | os.PathLike[str] | None = None) -> int:
    """Return the seed of a job: as given, that of the run it resumes, ``TFMUSTER_SEED``, or drawn."""
    if seed is None:
        seed = resumed_info(run_dir).get("seed")
    if seed is None:
        seed = given_seed()
    return secrets.randbelow(LARGEST_SEED + 1) if seed is None else seed


class Job(Control, Plain):
    """The program of a job, and its settings."""

    command: Sequence[str]
    #: The engine as options of ``tfmuster launch``; None if another process can't start the job there.
    where: Sequence[str] | None
    #: The engine's settings; None if the job is made without an engine.
    place: Place | None
    run_name: str
    #: Whether the user has set the seed. Otherwise it is the job's own.
    has_given_seed: bool
    #: Number of tasks of each type, in the order of the cluster.
    sizes: dict[str, int]
    #: Type of each task, in that order.
    kinds: list[str]
    #: Seed of Python's hashes, and so of the order of sets, in every worker.
    hash_seed: str
    if TYPE_CHECKING:
        workers: int
        seed: int

    def __init__(
        self,
        command: Sequence[str],
        *,
        where: Sequence[str] | None = None,
        place: Place | None = None,
        **settings: Any,
    ) -> None:
        settings["workers"] = 2 if settings.get("workers") is None else settings["workers"]
        super().__init__(**settings)
        if not command:
            raise LaunchError(
                "Nothing to run.",
                fix=Words("Name a script or a command{}.", Code("", "", " after `--`")),
                reason="command",
            )
        sizes = {"chief": int(self.chief), "worker": self.workers, "ps": self.ps}
        sizes |= {"evaluator": int(self.evaluator)}
        resumed = resumed_info(self.run_dir).get("hash_seed")
        seeds = (given_hash_seed(self.env), resumed, given_hash_seed(os.environ))
        more = {
            "command": command,
            "where": where,
            "place": place,
            "has_given_seed": self.seed is not None,
            "run_name": self.name or command_name(command),
            "sizes": sizes,
            "kinds": [kind for kind, size in sizes.items() for _ in range(size)],
            "seed": seed_for(self.seed, self.run_dir),
            "hash_seed": next(filter(None, seeds), "0"),
        }
        for name, value in more.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        """Raise LaunchError for a nested job, and for settings that contradict each other."""
        _check_not_nested(self.allow_nested)
        # A variable of the environment may be wrong, too.
        start_timeout(self.start_timeout)
        stall_timeout(self.stall_timeout)
        grace(self.grace)
        others = {"parameter servers": self.ps, "an evaluator": self.evaluator}
        wrong, fix = None, "Leave one of them out."
        if self.distribute and self.independent:
            wrong = ("independent", "Workers train one model (distribute) or one each (independent).")
        elif self.scale_batch and not self.distribute:
            wrong = ("scale_batch", "scale_batch changes the batch size of a program with distribute only.")
            fix = "Add distribute, or leave scale_batch out."
        elif self.distribute and any(others.values()):
            kind = next(kind for kind, count in others.items() if count)
            wrong = (kind, "distribute is for jobs that have only workers and a chief.")
        if wrong is not None:
            raise LaunchError(wrong[1], found=wrong[0], fix=fix, reason="distribute")
        if self.only_chief and self.all_output:
            raise LaunchError(
                "only_chief shows the output of the chief, and all_output that of all workers.",
                found="all_output",
                fix="Leave one of them out.",
                reason="output",
            )
        if self.notice_command is not None and not self.notice_command.strip():
            raise LaunchError(
                "The notice command must be a shell command.",
                found="an empty one",
                fix="Leave notice_command out.",
                reason="notice-command",
            )
        texts = (self.name or "", str(self.run_dir or ""), self.notice_command or "")
        check_text(*self.command, *self.env.values(), *texts)

    @property
    def output(self) -> str:
        """The output to show; see :meth:`.engines.base.Engine.run`."""
        return "chief" if self.only_chief else "each" if self.all_output else "all"

    def changed(self, **settings: Any) -> Job:
        """See :class:`tfmuster.options.rows.Settings`."""
        same = {**self.values(), "seed": self.seed if self.has_given_seed else None}
        job = Job(self.command, where=self.where, place=self.place, **{**same, **settings})
        if "seed" not in settings:
            object.__setattr__(job, "seed", self.seed)
        return job

    def variables(self, attempt: Attempt) -> dict[str, str]:
        """Return the job's environment variables of every worker, on any machine."""
        values = {name: getattr(self, field) for field, name in _VALUES.items()}
        return {
            **self.env,
            **attempt.variables(),
            FACE_VARIABLE: face(),
            SEED_VARIABLE: str(self.seed),
            HASH_SEED: self.hash_seed,
            **{name: str(value) for name, value in values.items() if value is not None},
            **({NESTED_VARIABLE: "1"} if JOB_VARIABLE in os.environ else {}),
            **({} if self.keras_compat else {KERAS_COMPAT_VARIABLE: "0"}),
            **{name: "1" for field, name in _SWITCHES.items() if getattr(self, field)},
        }

    def settings(self) -> dict[str, Any]:
        """Return the settings of the training that ``run.json`` records: those that are not the default."""
        environment = {**os.environ, **self.env}
        on = {field: getattr(self, field) or is_on(name, environment) for field, name in _SWITCHES.items()}
        values = {
            "grace": self.grace,
            "start_timeout": self.start_timeout,
            "encoding": output_encoding(environment),
            "hash_seed": None if self.hash_seed == "0" else self.hash_seed,
        }
        return {
            **{field: True for field, is_set in on.items() if is_set},
            **{name: value for name, value in values.items() if value is not None},
            "launch": self.launched(),
        }

    def launched(self) -> dict[str, Any]:
        """Return how the user has launched the job: settings by name, without those of the default value.

        The run directory is left out, because a second run needs one of its own. So is a session of Spark,
        which is one of this process.
        """
        given: dict[str, Any] = {
            "name": self.run_name if self.run_name != command_name(self.command) else None
        }
        given |= {"run_dir": None, "spark": None, "seed": self.seed if self.has_given_seed else None}
        values = {**({} if self.place is None else self.place.values()), **self.values(), **given}
        backend = {} if self.place is None else {"backend": self.place.backend}
        return backend | {
            name: _as_json(value) for name, value in values.items() if value != ROWS[name].default
        }

    def record(self, run: Run) -> None:
        """Record in its run how the job is launched again."""
        # In a batch job the options of its system are not known. They were recorded on submission.
        if self.where is not None and SUBMITTED_VARIABLE not in os.environ:
            record_launch(run.path, [*launch_options(self, run), *self.where], self.command, self.env)


def _as_json(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(map(_as_json, value)) if isinstance(value, tuple) else value


def check_text(*texts: str) -> None:
    """Raise LaunchError unless JSON can represent all texts, and the kernel accepts them as arguments."""
    for text in texts:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise LaunchError(
                "Names, arguments and variables of a job must be UTF-8 text without null bytes.",
                found=ascii(text),
                fix="Rename the file, or leave the character out.",
                reason="text",
            )


def launch_options(job: Job, run: Run | None, *, drawn_seed: bool = True) -> list[str]:
    """Return the job as options of ``tfmuster launch``, by default also with a seed that nobody has set.

    With a run, its environment variables are named only, because they may be secrets: whoever runs the
    command sets them. Without one, the command is for the user, and has their values.
    """
    run_dir = None if run is None else str(run.path)
    env = job.env if run is None else {}
    seed = job.seed if drawn_seed or job.has_given_seed else None
    options = job.on_command_line(
        env=env, name=job.run_name, run_dir=run_dir, only_chief=False, all_output=False, seed=seed
    )
    return options if run is None else [*options, *(f"--env={name}" for name in job.env)]


def begin_run(job: Job, attempt: Attempt, cluster: Cluster) -> Run:
    """Return the run of a job, which its first attempt makes, and record the attempt's cluster in it."""
    if attempt.run is None:
        run_dir = new_run(
            job.run_name,
            run_dir=job.run_dir,
            command=job.command,
            cluster=cluster.to_dict(),
            job=attempt.name,
            seed=job.seed,
            settings={**job.settings(), **_submitted(job)},
        )
        run = Run(run_dir)
        job.record(run)
        # The command of a function is a file of this package.
        record_git(run_dir, None if (run_dir / CALL).is_dir() else script_of(job.command))
        return run
    info = attempt.run.info()
    clusters = [*info.get("clusters", [info["cluster"]]), cluster.to_dict()]
    # Hosts may have been lost, or have come back.
    changed = {"cluster": cluster.to_dict(), "clusters": clusters, "job": attempt.name}
    record_info(attempt.run.path, {**info, **changed})
    return attempt.run


def _submitted(job: Job) -> dict[str, Any]:
    """Return how a batch job was launched, as recorded on submission: inside, it has other options."""
    if SUBMITTED_VARIABLE not in os.environ or job.run_dir is None:
        return {}
    launched = Run(job.run_dir).info().get("launch")
    return {} if launched is None else {"launch": launched}


def _check_not_nested(allowed: bool) -> None:
    """Raise LaunchError in a worker, unless allowed for one level: a job could launch itself forever."""
    if JOB_VARIABLE not in os.environ:
        return
    nested = is_on(NESTED_VARIABLE)
    if not nested and (allowed or is_on(ALLOW_NESTED_VARIABLE)):
        return
    line = user_line(r_function="launch")
    setting = Launch((Hint("allow_nested", True),), of="shell" if line is None else language())
    if nested:
        message = "A job that a worker has launched must not launch another one."
        fix = Words("Launch it elsewhere: {} is for one level.", setting)
    else:
        message = "A worker of a job must not launch another one: each of its workers would do so, too."
        fix = Words(
            "Launch from another script, which is not a worker's program. If each worker is to launch a job "
            "of its own, write {}, or set {}=1.",
            setting,
            ALLOW_NESTED_VARIABLE,
        )
    found = shlex.join(["tfmuster", *sys.argv[1:]]) if line is None else line
    raise LaunchError(message, found=found, fix=fix, reason="nested")
