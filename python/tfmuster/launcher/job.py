"""Describe a job: the program, the number of tasks, and the command that runs it."""

from __future__ import annotations

import difflib
import os
import secrets
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.spec import Task
from ..environment import (
    DISTRIBUTE_VARIABLE,
    GRACE_VARIABLE,
    HASH_SEED,
    INDEPENDENT_VARIABLE,
    LARGEST_SEED,
    NESTED_VARIABLE,
    NOTICE_COMMAND_VARIABLE,
    SCALE_BATCH_VARIABLE,
    SEED_VARIABLE,
    STALL_TIMEOUT_VARIABLE,
    START_TIMEOUT_VARIABLE,
    SUBMITTED_VARIABLE,
    given_hash_seed,
    given_seed,
    grace,
    is_on,
    stall_timeout,
    start_timeout,
)
from ..errors import LaunchError
from ..options.table import Control, Plain
from ..system.interpreter import python_executable, rscript_executable, run_module
from ..system.terminal_text import output_encoding
from ..tracking.lifecycle.resuming import record_launch, resumed_hash_seed, resumed_seed
from ..tracking.run import Run
from ..words import FACE_VARIABLE, Code, Words, face, r_text
from .nested import check_not_nested, in_a_job
from .supervise.restarts import Attempt
from .text_checks import check_text, command_name

#: Suffixes of notebooks, and how to make a script of one.
_NOTEBOOKS = {
    ".ipynb": "Convert it: jupyter nbconvert --to script {path}; then launch {stem}.py. Or define a function "
    "in the notebook, and call launch(function) of tfmuster there.",
    **dict.fromkeys(
        (".rmd", ".qmd"),
        'Extract its code in R: knitr::purl("{path}"); then launch {stem}.R. Or define a function in the '
        "notebook, and call launch(function) of tfmuster there.",
    ),
}

#: Fields of `Job` that switch something on in every worker, and the variables that do so.
_SWITCHES = (
    ("independent", INDEPENDENT_VARIABLE),
    ("distribute", DISTRIBUTE_VARIABLE),
    ("scale_batch", SCALE_BATCH_VARIABLE),
)


def workers_for(workers: int | None, slots: int | None, *, others: int) -> int:
    """Return the number of workers: as given, otherwise one per slot that `others` leave, otherwise 2."""
    if workers is not None:
        return workers
    return max(1, slots - others) if slots else 2


def seed_for(seed: int | None, run_dir: str | os.PathLike[str] | None = None) -> int:
    """Return the seed of a job: as given, that of the run it resumes, ``TFMUSTER_SEED``, or drawn."""
    if seed is None:
        seed = resumed_seed(run_dir)
    if seed is None:
        seed = given_seed()
    return secrets.randbelow(LARGEST_SEED + 1) if seed is None else seed


def hash_seed_for(env: Mapping[str, str], run_dir: str | os.PathLike[str] | None = None) -> str:
    """Return the seed of Python's hashes in a job: as the user has set it, that of the resumed run, or 0."""
    return given_hash_seed(env) or resumed_hash_seed(run_dir) or given_hash_seed(os.environ) or "0"


class Job(Control, Plain):
    """The program of a job, and its settings.

    Attributes
    ----------
    command : sequence of str
        The program and its arguments.
    where : sequence of str or None
        The engine as options of ``tfmuster launch``; None if another process can't start the job there.
    hash_seed : str
        The seed of Python's hashes, and so the order of sets, in every worker.
    """

    command: Sequence[str]
    where: Sequence[str] | None
    hash_seed: str
    if TYPE_CHECKING:
        workers: int
        seed: int

    def __init__(
        self, command: Sequence[str], *, where: Sequence[str] | None = None, **settings: Any
    ) -> None:
        settings["workers"] = 2 if settings.get("workers") is None else settings["workers"]
        super().__init__(**settings)
        seed = seed_for(self.seed, self.run_dir)
        hash_seed = hash_seed_for(self.env, self.run_dir)
        for name, value in (("command", command), ("where", where), ("seed", seed), ("hash_seed", hash_seed)):
            object.__setattr__(self, name, value)
        check_not_nested(self.allow_nested)
        # A variable of the environment may be wrong, too.
        start_timeout(self.start_timeout)
        stall_timeout(self.stall_timeout)
        grace(self.grace)
        self._check_training()
        if self.notice_command is not None and not self.notice_command.strip():
            raise LaunchError(
                "The notice command must be a shell command.",
                found="an empty one",
                fix="Leave notice_command out.",
                reason="notice-command",
            )
        if not self.command:
            raise LaunchError(
                "Nothing to run.",
                fix=Words("Name a script or a command{}.", Code("", "", " after `--`")),
                reason="command",
            )
        texts = (self.name or "", str(self.run_dir or ""), self.notice_command or "")
        check_text(*self.command, *self.env.values(), *texts)

    def _check_training(self) -> None:
        """Raise LaunchError for settings of the training that contradict each other."""
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

    def changed(self, **settings: Any) -> Job:
        """See :class:`tfmuster.options.rows.Settings`."""
        return Job(self.command, where=self.where, **{**self.values(), **settings})

    def sizes(self) -> dict[str, int]:
        """Return the number of tasks of each kind."""
        return {
            "chief": int(self.chief),
            "worker": self.workers,
            "ps": self.ps,
            "evaluator": int(self.evaluator),
        }

    def variables(self, attempt: Attempt) -> dict[str, str]:
        """Return the job's environment variables of every worker, on any machine."""
        variables = {**self.env, **attempt.variables(), FACE_VARIABLE: face()}
        variables |= {SEED_VARIABLE: str(self.seed), HASH_SEED: self.hash_seed}
        if self.start_timeout is not None:
            variables[START_TIMEOUT_VARIABLE] = str(self.start_timeout)
        if self.stall_timeout is not None:
            variables[STALL_TIMEOUT_VARIABLE] = str(self.stall_timeout)
        if self.grace is not None:
            variables[GRACE_VARIABLE] = str(self.grace)
        if self.notice_command is not None:
            variables[NOTICE_COMMAND_VARIABLE] = self.notice_command
        if in_a_job():
            variables[NESTED_VARIABLE] = "1"
        return {**variables, **{variable: "1" for field, variable in _SWITCHES if getattr(self, field)}}

    def settings(self) -> dict[str, Any]:
        """Return the settings of the training that ``run.json`` records: those that are not the default."""
        environment = {**os.environ, **self.env}
        switches = {
            field: True
            for field, variable in _SWITCHES
            if getattr(self, field) or is_on(variable, environment)
        }
        seconds = {"grace": self.grace, "start_timeout": self.start_timeout}
        hash_seed = None if self.hash_seed == "0" else self.hash_seed
        others = {**seconds, "encoding": output_encoding(environment), "hash_seed": hash_seed}
        return {**switches, **{name: value for name, value in others.items() if value is not None}}

    def record(self, run: Run) -> None:
        """Record in its run how the job is launched again."""
        # In a batch job the options of its system are not known. They were recorded on submission.
        if self.where is not None and SUBMITTED_VARIABLE not in os.environ:
            record_launch(run.path, [*launch_options(self, run), *self.where], self.command, self.env)

    def run_name(self) -> str:
        """Return the given name, or one made from the command."""
        return self.name or command_name(self.command)


def resolve_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return the argument list to run: a script after its interpreter, or a command with its path.

    Raises
    ------
    LaunchError
        If the script, the command or Rscript does not exist.
    """
    first, *arguments = command
    suffix = Path(first).suffix.lower()
    if suffix in (".py", ".r"):
        if not Path(first).is_file():
            raise LaunchError(
                "The script to run must exist.",
                found=f"no file {first} in {os.getcwd()}",
                fix=f"{_meant(first)}Check the path; it is relative to the working directory.",
                reason="script",
            )
        interpreter = python_executable() if suffix == ".py" else _rscript()
        return (interpreter, first, *arguments)
    if first == "tfmuster":
        # Use this installation, even if another one is on PATH.
        return (*run_module("tfmuster"), *arguments)
    if suffix in _NOTEBOOKS:
        raise LaunchError(
            "A notebook must become a script before it can be launched.",
            found=first,
            fix=_NOTEBOOKS[suffix].format(
                path=shlex.quote(first), stem=shlex.quote(str(Path(first).with_suffix("")))
            ),
            reason="notebook",
        )
    return (_executable(first), *arguments)


def command_of(command: Sequence[str], task: Task) -> tuple[str, ...]:
    """Return a command with ``{index}``, ``{type}``, ``{worker_hosts}`` in its arguments replaced for a task.

    ``{ps_hosts}`` and so on stand for the addresses of the tasks of a kind, separated by commas.
    """
    hosts = {f"{{{kind}_hosts}}": ",".join(given) for kind, given in task.cluster.to_dict().items()}
    values = {"{index}": str(task.index), "{type}": task.type, **hosts}
    first, *arguments = command
    for name, value in values.items():
        arguments = [word.replace(name, value) for word in arguments]
    return (first, *arguments)


def launch_options(job: Job, run: Run | None) -> list[str]:
    """Return the job as options of ``tfmuster launch``.

    With a run, its environment variables are named only, because they may be secrets: whoever runs the
    command sets them. Without one, the command is for the user, and has their values.
    """
    run_dir = None if run is None else str(run.path)
    env = job.env if run is None else {}
    options = job.on_command_line(env=env, name=job.run_name(), run_dir=run_dir, only_chief=False)
    return options if run is None else [*options, *(f"--env={name}" for name in job.env)]


def _rscript() -> str:
    return rscript_executable() or _executable("Rscript")


def _executable(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        found, fix = _instead_of(name)
        raise LaunchError("The program to run must be on PATH.", found=found, fix=fix, reason="command")
    return path


def _instead_of(name: str) -> tuple[str, str]:
    """Describe what is there instead of a program, and what to do."""
    if name == "Rscript":
        return "no Rscript", "Install R, or put it on PATH."
    fix = "Give the path of a .py or .R script, or of a command."
    if os.path.isdir(name):
        return f"{name} is a folder", fix
    if not os.path.isfile(name):
        return f"no {name}", f"{_meant(name)}{fix}"
    words = shlex.quote(name)
    if os.access(name, os.X_OK):
        return f"{name} is in the working directory, which is not on PATH", f"Write ./{words}."
    if not name.endswith((".sh", ".bash")):
        return f"{name} is neither a .py or .R script nor a command", fix
    by_shell = Code(
        f'launch("bash", {name!r})',
        f'launch("bash", {r_text(name)})',
        f"tfmuster launch [OPTIONS] -- bash {words}",
    )
    path = "" if os.path.dirname(name) else f" and write ./{words}"
    fix = f"Make it executable (chmod +x {words}){path}, or launch it by its shell: {by_shell}"
    return f"{name} is not executable", fix


def _meant(name: str) -> str:
    """Ask whether a script of that folder is meant, with another ending or a similar name."""
    wanted = Path(name)
    suffixes = (".py", ".r", *_NOTEBOOKS)
    try:
        scripts = sorted(path for path in wanted.parent.iterdir() if path.suffix.lower() in suffixes)
    except OSError:
        return ""
    stem = wanted.stem if wanted.suffix.lower() in suffixes else wanted.name
    near = difflib.get_close_matches(stem, {path.stem for path in scripts}, n=1, cutoff=0.75)
    meant = [str(path) for path in scripts if path.stem in near]
    return f"Did you mean {' or '.join(meant)}? " if meant else ""
