"""Where a job runs: the classes that `launch()` takes for ``on``, one for each engine.

Their fields are rows of the table of all settings (:mod:`.table`), which also documents the classes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..environment import SSH_CONFIG_VARIABLE
from ..words import Face
from .rows import (
    ADDRESSES,
    COUNT,
    EVERYDAY,
    FAILURES,
    FLAG,
    HOSTS,
    LIMIT,
    NAME,
    NUMBER,
    OBJECT,
    PATH,
    PATHS,
    SECONDS,
    STRINGS,
    WHERE,
    Settings,
    option,
)

_SHELL: tuple[Face, ...] = ("shell",)
_PROGRAMS: tuple[Face, ...] = ("python", "r")


class Place(Settings):
    """Where a job runs: the base class of what ``on`` takes."""

    #: The name of the engine, as ``--backend`` takes it.
    backend: ClassVar[str] = ""

    # Of the command line for every engine: those that can't use hosts refuse them with a reason of their own.
    hosts: str | None = option(
        HOSTS,
        group=EVERYDAY,
        default=None,
        flags=("-H", "--hosts"),
        faces=_SHELL,
        help="Run on these machines, by ssh or mpirun. Default: on this one.",
    )
    hostfile: str | os.PathLike[str] | None = option(
        PATH,
        group=WHERE,
        default=None,
        faces=_SHELL,
        help="Read the machines from a file with one host per line: HOST slots=N, as for mpirun, or HOST:N. "
        "Default: none.",
    )
    ssh_config: str | os.PathLike[str] | None = option(
        PATH,
        group=WHERE,
        default=None,
        variable=SSH_CONFIG_VARIABLE,
        faces=_SHELL,
        help="Use this configuration file of ssh. Default: TFMUSTER_SSH_CONFIG, else the user's own.",
    )
    addresses: Mapping[str, str] = option(
        ADDRESSES,
        group=WHERE,
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
        group=FAILURES,
        default=False,
        help="On this machine or over ssh, with {max_restarts}: keep a process ready for each worker, which "
        "has TensorFlow imported, so that a restart takes half the time. Default: start new ones.",
        more="It needs about 500 MB for each worker.",
    )


def _oversubscribe() -> Any:
    return option(
        FLAG,
        group=WHERE,
        default=False,
        help="On this machine or over ssh: start more than four processes for a core of a machine, or more "
        "than its free memory holds. Default: refuse that.",
    )


class Local(Place):
    """Run the workers as processes on this machine."""

    backend = "local"

    isolated: bool = option(
        FLAG,
        group=WHERE,
        default=False,
        help="On this machine: give the workers a network of their own, in which they reach only each "
        "other. Default: use that of the machine.",
        more="Nothing else reaches them, and programs that download data fail. Linux only.",
    )
    warm: bool = _warm()
    oversubscribe: bool = _oversubscribe()


class Elsewhere(Place):
    """What all engines read that start workers on other machines."""

    copy: bool = option(
        FLAG,
        group=WHERE,
        default=False,
        help="Send the script to the hosts. Default: use the one there, at the same path.",
        else_ignored=True,
    )
    files: Sequence[str | os.PathLike[str]] = option(
        PATHS,
        group=WHERE,
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
        group=WHERE,
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
        group=WHERE,
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
        group=EVERYDAY,
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
    oversubscribe: bool = _oversubscribe()
    hosts_from: str | None = option(
        NAME,
        group=WHERE,
        default=None,
        metavar="COMMAND",
        help="Run on the machines that this shell command prints, a line HOST:SLOTS each. Each restart runs "
        "it again. Default: none.",
    )
    min_workers: int | None = option(
        COUNT,
        group=FAILURES,
        default=None,
        help="With hosts and {max_restarts}: continue with N or more workers if hosts are lost. Default: "
        "all.",
        more="They make the same updates, with the same global batches. The next restart takes all hosts "
        "that are back.",
    )
    rejoin_timeout: float | None = option(
        LIMIT,
        group=FAILURES,
        default=None,
        help="With hosts and {max_restarts}: wait this long at a restart for a lost host to come back. "
        "Default: 120, or 30 with {min_workers}.",
        else_ignored=True,
    )
    grow: float | None = option(
        SECONDS,
        group=FAILURES,
        default=None,
        help="With {min_workers}: look this often for hosts that are back or new, and continue with them "
        "from a new checkpoint, with at most {workers} workers. Default: never.",
    )


class Started(Elsewhere):
    """What the engines read whose program has options of its own."""

    UNNAMED: ClassVar[tuple[str, ...]] = ("*backend_options",)

    backend_options: Sequence[str] = option(
        STRINGS,
        group=WHERE,
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
        group=FAILURES,
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
        group=WHERE,
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
