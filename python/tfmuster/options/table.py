"""All settings of a launch: the arguments of `launch()`, and what ``on`` and ``control`` take.

Each field is a row (:mod:`.rows`). From the rows come the options of ``tfmuster launch``, the classes below,
R's functions ``on_*()`` and ``launch_control()`` (``R/launch_options.R``, by ``make options``), the checks of
all values, the spellings in messages, and the command lines of jobs in the background and in batch systems.
To add a setting, add a row and use it; ``tests/python/unit/test_options.py`` tests all rows.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from ..environment import SSH_CONFIG_VARIABLE
from ..words import Face
from .rows import (
    ADDRESSES,
    COUNT,
    FLAG,
    FOLDER,
    HOSTS,
    LIMIT,
    NAME,
    NUMBER,
    OBJECT,
    PATH,
    PATHS,
    SECONDS,
    SEED,
    SHARE,
    STRINGS,
    VARIABLES,
    Option,
    Settings,
    option,
)

_SHELL: tuple[Face, ...] = ("shell",)
_PROGRAMS: tuple[Face, ...] = ("python", "r")


class Plain(Settings):
    """What `launch()` takes itself for the job."""

    workers: int | None = option(
        COUNT,
        default=None,
        flags=("-n", "-np", "--workers"),
        help="Start this many workers. Default: one per slot of the hosts, else 2.",
    )
    max_restarts: int = option(
        NUMBER,
        default=0,
        help="Restart the whole job from its last checkpoint after a failure, at most N times. Default: 0.",
    )
    seed: int | None = option(
        SEED,
        default=None,
        help="Seed the random number generators of every worker. Default: TFMUSTER_SEED, else drawn.",
    )
    name: str | None = option(
        NAME, default=None, metavar="NAME", help="Name the run. Default: the name of the script."
    )
    run_dir: str | os.PathLike[str] | None = option(
        FOLDER, default=None, help="Use this run directory. Default: runs/<UTC time>-<name>."
    )


class Waiting(Settings):
    """How `launch()` waits for the job, which it takes itself, too."""

    quiet: bool = option(
        FLAG,
        default=False,
        flags=("-q", "--quiet"),
        help="Show only failures. Default: show the output of all workers.",
    )
    wait: bool = option(
        FLAG,
        default=True,
        flags=("--detach",),
        help="Return when the workers run; `tfmuster runs` follows them. Default: wait for the end.",
    )
    timings: bool = option(
        FLAG,
        default=False,
        faces=_SHELL,
        help="Show at the end where the time went, and which workers waited. Default: do not.",
    )
    dry_run: bool = option(
        FLAG,
        default=False,
        faces=_SHELL,
        help="For batch systems: print the script, and do not submit it. Default: submit it.",
    )


class Control(Settings):
    """Settings of `launch()` that few jobs need, for its argument ``control``."""

    ps: int = option(
        NUMBER,
        default=0,
        help="Start this many parameter servers, which end with the workers. Default: 0.",
    )
    chief: bool = option(
        FLAG, default=False, help="Start a chief besides the workers. Default: worker 0 is the chief."
    )
    evaluator: bool = option(
        FLAG, default=False, help="Start an evaluator, which ends with the workers. Default: start none."
    )
    strategy: str = option(
        NAME,
        default="multi_worker_mirrored",
        faces=_PROGRAMS,
        help="Functions only: the name of the strategy that the function gets as its argument `strategy`.",
    )
    distribute: bool = option(
        FLAG,
        default=False,
        help="Train a program without a strategy on all workers, with its batch as the global batch. "
        "Default: refuse it.",
        more="It makes the same updates as in one process.",
    )
    scale_batch: bool = option(
        FLAG,
        default=False,
        help="With {distribute}: multiply the batch size of fit() by the number of workers. Default: keep "
        "it.",
    )
    independent: bool = option(
        FLAG,
        default=False,
        help="Let each worker train a model of its own. Default: refuse that.",
        more="By default, such a worker fails with a strategy error (reason `not-distributed`).",
    )
    allow_nested: bool = option(
        FLAG,
        default=False,
        help="Let a worker of another job launch this one. Default: refuse that.",
        more="A program that launches itself would do so without end. The workers of the nested job can't "
        "launch another one.",
    )
    env: Mapping[str, str] = option(
        VARIABLES,
        default={},
        metavar="NAME[=VALUE]",
        help="Set {a_variable} for every worker. {here}Default: none.",
    )
    gpus_per_worker: int | None = option(
        SHARE,
        default=None,
        help="Show each worker this many GPUs; 0 hides all. Default: 1 if there are as many GPUs as "
        "workers, else all.",
    )
    only_chief: bool = option(
        FLAG, default=False, help="Show only the output of the chief. Default: of all workers."
    )
    keras_compat: bool = option(
        FLAG,
        default=True,
        flags=("--no-keras-compat",),
        help="{patch}. Default: patch it.",
    )
    start_timeout: float | None = option(
        SECONDS,
        default=None,
        help="Wait this long for all tasks to arrive. Default: TFMUSTER_START_TIMEOUT, else 60.",
    )
    stall_timeout: float | None = option(
        LIMIT,
        default=None,
        help="End the job if workers wait this long for one that makes no progress; 0: never. Default: "
        "TFMUSTER_STALL_TIMEOUT, else 300.",
        more="The error names the worker that they wait for.",
    )
    grace: float | None = option(
        SECONDS,
        default=None,
        help="Let workers take this long to write a checkpoint after a shutdown signal. Default: "
        "TFMUSTER_GRACE, else 30.",
        more="After that time, the job ends without a checkpoint. See {checkpoint_callback}.",
    )
    notice_command: str | None = option(
        NAME,
        default=None,
        metavar="COMMAND",
        help="Write a checkpoint and end the job when this shell command, run every 5 s, succeeds on a "
        "worker's machine, because its spot instance is about to be reclaimed. Default: none.",
        more="Workers run it during `fit` with checkpoints.",
    )


class Place(Settings):
    """Where a job runs: the base class of what ``on`` takes."""

    #: The name of the engine, as ``--backend`` takes it.
    backend: ClassVar[str] = ""

    # Of the command line for every engine: those that can't use hosts refuse them with a reason of their own.
    hosts: str | None = option(
        HOSTS,
        default=None,
        flags=("-H", "--hosts"),
        faces=_SHELL,
        help="Run on these machines, by ssh or mpirun. Default: on this one.",
    )
    hostfile: str | os.PathLike[str] | None = option(
        PATH,
        default=None,
        faces=_SHELL,
        help="Read the machines from a file with one host per line: HOST slots=N, as for mpirun, or HOST:N. "
        "Default: none.",
    )
    ssh_config: str | os.PathLike[str] | None = option(
        PATH,
        default=None,
        variable=SSH_CONFIG_VARIABLE,
        faces=_SHELL,
        help="Use this configuration file of ssh. Default: TFMUSTER_SSH_CONFIG, else the user's own.",
    )
    addresses: Mapping[str, str] = option(
        ADDRESSES,
        default={},
        flags=("--address",),
        metavar="HOST=ADDRESS",
        faces=_SHELL,
        help="Set the address by which the other hosts reach a host; repeatable. Default: its name.",
    )


def _warm() -> Any:
    """Return a row that two engines have in different places."""
    return option(
        FLAG,
        default=False,
        help="On this machine or over ssh, with {max_restarts}: keep a process ready for each worker, which "
        "has TensorFlow imported, so that a restart takes half the time. Default: start new ones.",
        more="It needs about 500 MB for each worker.",
    )


class Local(Place):
    """Run the workers as processes on this machine."""

    backend = "local"

    isolated: bool = option(
        FLAG,
        default=False,
        help="On this machine: give the workers a network of their own, in which they reach only each "
        "other. Default: use that of the machine.",
        more="Nothing else reaches them, and programs that download data fail. Linux only.",
    )
    warm: bool = _warm()
    oversubscribe: bool = option(
        FLAG,
        default=False,
        help="On this machine: start more than four processes for a core, or more than the free memory "
        "holds. Default: refuse that.",
    )


class Elsewhere(Place):
    """What all engines read that start workers on other machines."""

    copy: bool = option(
        FLAG,
        default=False,
        help="Send the script to the hosts. Default: use the one there, at the same path.",
        else_ignored=True,
    )
    files: Sequence[str | os.PathLike[str]] = option(
        PATHS,
        default=(),
        flags=("--file",),
        help="Send {a_file} with the script{repeatable}. Default: none.",
        more="They keep their path relative to the working directory. Each worker then runs in a temporary "
        "folder, which is removed afterwards. What the chief's program writes there is copied to `files/` "
        "in the run directory, up to {fetch_limit} MB.",
        else_ignored=True,
    )
    remote_python: str | None = option(
        NAME,
        default=None,
        metavar="PATH",
        help="Use this Python with tfmuster on the hosts. Default: the path of this one.",
        else_ignored=True,
    )
    trust_hosts: bool = option(
        FLAG,
        default=False,
        faces=_PROGRAMS,
        help="Functions only: let workers on other machines return objects of any kind.",
        more="Reading them lets every host of the job run code in this session, so set this only if you "
        "trust all of them. By default, such workers return data: {data}. Workers on this machine may "
        "return objects of any kind.",
    )
    fetch_limit: int = option(
        NUMBER,
        default=2048,
        metavar="MB",
        help="Send at most this many MB of what the chief's program writes back to the run directory, "
        "with {files} or {copy}. Default: 2048.",
        more="Larger files stay on the host, and are named.",
    )


class OnHosts(Elsewhere):
    """What the engines read that start workers on named hosts."""

    hosts: str | None = option(
        HOSTS,
        default=None,
        flags=("-H", "--hosts"),
        help="Run on these machines, by ssh or mpirun. Default: on this one.",
        more="Write each with its number of tasks, such as `node1:2`. Your `ssh` must reach them without a "
        "password, and they need the same version of tfmuster.",
        kw_only=False,
    )


class Ssh(OnHosts):
    """Start the workers with ssh on other machines."""

    backend = "ssh"
    UNNAMED: ClassVar[tuple[str, ...]] = ("hosts",)

    warm: bool = _warm()
    hosts_from: str | None = option(
        NAME,
        default=None,
        metavar="COMMAND",
        help="Run on the machines that this shell command prints, a line HOST:SLOTS each. Each restart runs "
        "it again. Default: none.",
    )
    min_workers: int | None = option(
        COUNT,
        default=None,
        help="With hosts and {max_restarts}: continue with N or more workers if hosts are lost. Default: "
        "all.",
        more="They make the same updates, with the same global batches. The next restart takes all hosts "
        "that are back.",
    )
    rejoin_timeout: float = option(
        LIMIT,
        default=30.0,
        help="With {min_workers}: wait this long at a restart for a lost host to come back. Default: 30.",
        else_ignored=True,
    )
    grow: float | None = option(
        SECONDS,
        default=None,
        help="With {min_workers}: look this often for hosts that are back or new, and continue with them "
        "from a new checkpoint, with at most {workers} workers. Default: never.",
    )


class Started(Elsewhere):
    """What the engines read whose program has options of its own."""

    UNNAMED: ClassVar[tuple[str, ...]] = ("*backend_options",)

    backend_options: Sequence[str] = option(
        STRINGS,
        default=(),
        flags=("--backend-option",),
        help="Set an option of the backend, such as spark.executor.memory=4g, or of mpirun or sbatch, such "
        "as --partition=gpu{repeatable}. Default: none.",
    )

    if TYPE_CHECKING:

        def __init__(self, *backend_options: str, **settings: Any) -> None: ...


class Slurm(Started):
    """Submit a job with `sbatch`, in which `srun` starts the workers."""

    backend = "slurm"

    requeue: bool = option(
        FLAG,
        default=False,
        help="Slurm: write a checkpoint before the time limit, requeue the job, and resume it. Default: do "
        "not.",
        more="The checkpoint is written two minutes before the limit. After preemption or a lost node, the "
        "job resumes from the newest checkpoint.",
    )


class Sge(Started):
    """Submit a job with `qsub`, in which `qrsh` starts the workers."""

    backend = "sge"


class Pbs(Started):
    """Submit a job with `qsub`, which starts the workers on its hosts."""

    backend = "pbs"


class Lsf(Started):
    """Submit a job with `bsub`, in which `blaunch` starts the workers."""

    backend = "lsf"


class Mpi(OnHosts, Started):
    """Start the workers with `mpirun`."""

    backend = "mpi"
    UNNAMED: ClassVar[tuple[str, ...]] = ("hosts", "*backend_options")

    if TYPE_CHECKING:

        def __init__(self, hosts: str | None = None, *backend_options: str, **settings: Any) -> None: ...


class Spark(Started):
    """Run the workers as the tasks of a barrier stage of Spark."""

    backend = "spark"
    UNNAMED: ClassVar[tuple[str, ...]] = ("master", "*backend_options")

    master: str | None = option(
        NAME,
        default=None,
        metavar="URL",
        help="Use this Spark master, such as spark://node1:7077 or local[4]. Default: that of Spark.",
    )
    spark: Any = option(
        OBJECT,
        default=None,
        faces=_PROGRAMS,
        help="Use this session of pyspark, in place of a master. Default: make one.",
    )

    if TYPE_CHECKING:

        def __init__(self, master: str | None = None, *backend_options: str, **settings: Any) -> None: ...


#: In the order of texts that name them all.
PLACES: tuple[type[Place], ...] = (Local, Ssh, Spark, Slurm, Sge, Pbs, Lsf, Mpi)
BACKENDS: tuple[str, ...] = tuple(place.backend for place in PLACES)
#: Where an option of this name is known, in the order of their documentation.
TABLE: tuple[type[Settings], ...] = (Plain, Waiting, Control, *PLACES)

_ROWS = sorted((row for settings in TABLE for row in settings.ROWS.values()), key=lambda row: len(row.faces))
#: All rows by name. Some classes have a row only for the command line.
ROWS: dict[str, Option] = {row.name: row for row in _ROWS}

#: What is not the same in the texts of all faces: for the command line, Python and R.
_PARTS = {
    "a_variable": ("a variable", "environment variables", "environment variables"),
    "here": ("Without =VALUE, its value here is used. Repeatable. ", "", ""),
    "a_file": ("a file or a folder", "files and folders", "files and folders"),
    "repeatable": ("; repeatable", "", ""),
    "patch": ("Do not patch Keras 3", *("Patch Keras 3, so that it works on several workers",) * 2),
    "checkpoint_callback": ("", ":func:`tfmuster.checkpoint_callback`", "[callback_checkpoint()]"),
    "data": (
        "",
        "numbers, text, arrays, pandas data, Keras models, and lists and dicts of them",
        "vectors, factors, data frames, matrices, lists of them, and models",
    ),
}


def text_of(row: Option, face: Face) -> str:
    """Return what a setting does, in the words of a face."""
    names = {name: _spelled(known, face) for name, known in ROWS.items()}
    place = ("shell", "python", "r").index(face)
    return row.text(face, {**names, **{name: texts[place] for name, texts in _PARTS.items()}})


def _spelled(row: Option, face: Face) -> str:
    return (row.flags[0] if row.flags else "") if face == "shell" else f"`{row.name}`"


def _document(settings: type[Settings]) -> None:
    """Add the settings to the documentation of a class."""
    lines = [settings.__doc__ or "", "", "Parameters", "----------"]
    types = {declared.name: declared.type for declared in fields(settings)}  # type: ignore[arg-type]
    for row in settings.public("python"):
        lines += [f"{row.name} : {types[row.name]}"]
        lines += textwrap.wrap(text_of(row, "python"), 100, initial_indent="    ", subsequent_indent="    ")
    settings.__doc__ = "\n".join(lines)


for _settings in TABLE[2:]:
    _document(_settings)
