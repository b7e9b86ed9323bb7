"""Run a job by Slurm: ``srun`` starts the agents inside an allocation; from outside a batch job is submitted.

The batch job runs the very same ``tfmuster launch``, so that it does not depend on the machine from which it
was submitted (:mod:`.slurm_batch`).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ...errors import LaunchError, TfmusterError
from ...runs.failure import Failure
from ...runs.lifecycle import new_run_path
from ...runs.run import Run
from ...system.interpreter import package_root, python_executable
from ..job import Job, launch_options
from ..remote.gather import AgentRequest, run_placed
from ..text_checks import check_line
from .agent_command import AgentCommand
from .base import Engine, UnavailableError, Where, answer_of, find_program
from .slurm_batch import log_of, slurm_program

if TYPE_CHECKING:
    from .slurm_batch import Submitted

_NO_ROOM = re.compile(
    "More processors requested|Requested node configuration|nodes? count|not available", re.IGNORECASE
)
#: See :class:`.base.Engine`.
READS = ("backend_options",)
#: Slurm gives each task the GPUs that are its own, and only the task itself can tell which.
_WITH_GPUS = '"--gpus=${CUDA_VISIBLE_DEVICES:--1}"'
#: Who cancels a batch job asks all of its processes to end, the launcher among them: it is to do that alone.
_FOR_THE_LAUNCHER = "trap '' TERM; "


@dataclass(frozen=True)
class Slurm(Engine):
    """Has Slurm run a job.

    The user's options are those of ``sbatch``, or inside an allocation of ``srun``, each with its value:
    ``--partition=gpu``.
    """

    launcher_addresses: Sequence[str] = ()

    @property
    def slots(self) -> int | None:
        """The tasks of the allocation, if this is inside of one."""
        tasks = os.environ.get("SLURM_NTASKS", "") if inside_allocation(os.environ) else ""
        return int(tasks) if tasks.isdigit() else None

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`."""
        where = self.where
        options = [f"--backend-option={option}" for option in where.backend_options]
        return ["--backend=slurm", *where.sent_options(), *options]

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        from .slurm_batch import follow, note_failed_start

        if inside_allocation(os.environ):
            try:
                return run_placed(job, self, show=show, tell=tell)
            except TfmusterError as error:
                if job.run_dir is not None and Run(job.run_dir).info():
                    note_failed_start(Run(job.run_dir), error)
                raise
        return follow(self._submit(job), show=show, tell=tell)

    def submit(self, job: Job) -> Run | None:
        """See :class:`.base.Engine`. It may wait for its machines for hours."""
        return None if inside_allocation(os.environ) else self._submit(job).run

    def _submit(self, job: Job) -> Submitted:
        from .slurm_batch import submit

        run = Run(job.run_dir if job.run_dir is not None else new_run_path(job.run_name()))
        return submit(self.script(job, run), run, job.command, job.env)

    def script(self, job: Job, run: Run | None = None) -> str:
        """The batch script; without a run directory it may be submitted again and again."""
        inner = replace(self, where=replace(self.where, backend_options=()))
        options = [*launch_options(job, run), *inner.as_options()]
        python = self.where.remote_python or python_executable()
        command = [python, "-m", "tfmuster", "launch", "--quiet", *options, "--", *job.command]
        asked = {
            "job-name": job.run_name(),
            "ntasks": str(sum(job.sizes().values())),
            "chdir": os.getcwd(),
        }
        if run is not None:
            # Slurm replaces what follows a percent sign.
            asked["output"] = log_of(run).replace("%", "%%")
        if job.gpus_per_worker:
            asked["gpus-per-task"] = str(job.gpus_per_worker)
        for name, value in asked.items():
            check_line(value, name, without="\\")
        lines = ["#!/bin/bash", *(f"#SBATCH --{name}={_quoted(value)}" for name, value in asked.items())]
        # A second start would find the run directory of the first.
        lines += ["#SBATCH --no-requeue", *(f"#SBATCH {option}" for option in self.where.backend_options)]
        if root := package_root():
            lines.append(f'export PYTHONPATH={shlex.quote(root)}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        return "\n".join([*lines, f"exec {shlex.join(command)}", ""])

    def start(self, call: AgentRequest) -> AgentCommand:
        """Have agents started in the allocation."""
        program = slurm_program("srun")
        agent = call.command(self.where.remote_python or python_executable(), rank_from=("SLURM_PROCID",))
        own_gpus = _WITH_GPUS if "SLURM_GPUS_PER_TASK" in os.environ else ""
        patient = _FOR_THE_LAUNCHER if os.environ.get("ENVIRONMENT") == "BATCH" else ""
        agent = ["sh", "-c", f'{patient}exec "$@" {own_gpus}', "sh", *agent]
        options = [
            f"--ntasks={call.count}",
            "--chdir=/",
            "--export=ALL",
            "--input=none",
            "--mpi=none",
            # TensorFlow has threads of its own for all cores of the job.
            "--cpu-bind=none",
            "--kill-on-bad-exit=1",
        ]
        if "SLURM_STEP_ID" in os.environ:
            options.append("--overlap")
        if cpus := os.environ.get("SLURM_CPUS_PER_TASK"):
            options.append(f"--cpus-per-task={cpus}")
        own = [word for option in self.where.backend_options for word in shlex.split(option)]
        explain = partial(_explain, call.count)
        return AgentCommand([program, *options, *own, *agent], {**os.environ, **call.env}, call, explain)


def of(where: Where) -> Slurm:
    """What Slurm is to do.

    Raises
    ------
    LaunchError
        Something has no meaning for Slurm.
    """
    hosts = where.hosts or where.hostfile
    if hosts or where.addresses:
        raise LaunchError(
            "Slurm chooses the nodes.",
            found=f"hosts {hosts}" if hosts else "--address",
            fix="Leave them out; --backend-option=--nodelist=node1,node2 asks for some.",
            reason="hosts",
        )
    for option in where.backend_options:
        check_line(option, "option of sbatch or srun", start="-")
    return Slurm(where)


def available(seconds: float) -> str:
    """Which controller answers."""
    for name in ("srun", "sbatch"):
        find_program(name, "apt-get install slurm-client, on a machine of a Slurm cluster")
    answer = answer_of("scontrol", "ping", seconds=seconds)
    up = [line for line in answer.output.splitlines() if " is UP" in line]
    if not up:
        raise UnavailableError(f"srun is here, but no controller answers ({answer.first_line})")
    return up[0].strip()


def inside_allocation(environ: Mapping[str, str]) -> bool:
    """Whether Slurm has given this process machines already."""
    return "SLURM_JOB_ID" in environ


def _quoted(value: str) -> str:
    """A value as ``sbatch`` reads it in its lines of a script."""
    return '"' + value.replace('"', '\\"') + '"'


def _explain(count: int, text: str, lines: str) -> TfmusterError:
    """Why srun has not started all agents."""
    errors = [line.strip() for line in text.splitlines() if "error:" in line]
    lines = "\n         ".join(errors[:4]) or lines
    if _NO_ROOM.search(text):
        return LaunchError(
            "The allocation must have room for every task.",
            found=f"{count} tasks; {lines}",
            fix="Ask sbatch or salloc for more (--ntasks), or start fewer workers (-n).",
            reason="slots",
        )
    return LaunchError(
        f"srun must start {count} processes.",
        found=lines,
        fix="See that `srun hostname` works in the same allocation.",
        reason="slurm",
    )
