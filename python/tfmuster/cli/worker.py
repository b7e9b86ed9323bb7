"""``tfmuster worker``: run a program as the task that MPI, a batch system, Kubernetes or TF_CONFIG names."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..environment import (
    CHECKPOINT_DIR_VARIABLE,
    KERAS_COMPAT_VARIABLE,
    LARGEST_SEED,
    SEED_VARIABLE,
    START_TIMEOUT_VARIABLE,
)
from ..words import FACE_VARIABLE
from .parameters import ENDS_AT_PROGRAM, WholeNumber, option, program_argument, row_option


@click.command("worker", context_settings=ENDS_AT_PROGRAM)
@option(
    "--base-port PORT",
    "Use this port for the first task of each machine, and the next port for the "
    "next task. Default: TFMUSTER_BASE_PORT, else the choice of the engine; see its "
    "page of the documentation.",
    WholeNumber(1024, 65_535),
)
@row_option("start_timeout")
@option(
    "--seed N",
    "Seed the random number generators; give every task the same seed. Default: "
    "TFMUSTER_SEED, else the tasks agree on one when they meet.",
    WholeNumber(0, LARGEST_SEED),
)
@option(
    "--run-dir DIR",
    "Keep checkpoints, and models that are saved without a path, in this directory. Default: "
    "TFMUSTER_CHECKPOINT_DIR, else beside the script.",
)
@option("--no-keras-compat", "Do not patch Keras 3. Default: patch it.")
@program_argument()
def worker(
    *,
    base_port: int | None,
    start_timeout: float | None,
    seed: int | None,
    run_dir: str | None,
    no_keras_compat: bool,
    program: tuple[str, ...],
) -> int:
    """Run a script or a command as one task of a job that another program has started.

    The environment names the task: MPI, a batch system such as Slurm, or Kubernetes sets it, or you set
    TF_CONFIG. A script may also set TF_CONFIG itself. The program gets TF_CONFIG as under `tfmuster launch`,
    and in its arguments {index}, {type}, {worker_hosts} and {ps_hosts} are replaced by its task's values.
    This process forwards signals to the program, and ends with its exit code or signal.

    \b
    tfmuster worker -- train.py --index 0
    srun -n 4 tfmuster worker -- train.R
    mpirun -np 4 tfmuster worker -- train.py --epochs 3
    """
    from ..cluster.resolvers import engine_here, gpus_here, leave_engine, resolve_task
    from ..cluster.spec import hosts_of
    from ..cluster.tf_config import task_variables
    from ..errors import LaunchError
    from ..launcher.command import command_of, resolve_command
    from ..launcher.supervise.child import run_child
    from ..system.process_end import exit_as

    source = "TF_CONFIG" if os.environ.get("TF_CONFIG") else engine_here()
    # Do this first, because the tasks of an engine may wait for each other here.
    task = resolve_task(base_port=base_port, stay=True)
    if task is None and not _sets_tf_config(program[0]):
        raise LaunchError(
            "A worker must be told which task of the job it is.",
            found="no TF_CONFIG, and no variables of MPI, a batch system or Kubernetes",
            fix="Start it with srun, mpirun or a Kubernetes Job; on this machine, use `tfmuster launch`.",
            reason="no-engine",
        )
    environment = {FACE_VARIABLE: "shell", **os.environ, **gpus_here()}
    folder = run_dir and os.path.abspath(run_dir)
    settings = {START_TIMEOUT_VARIABLE: start_timeout, SEED_VARIABLE: seed, CHECKPOINT_DIR_VARIABLE: folder}
    environment |= {variable: str(value) for variable, value in settings.items() if value is not None}
    if task is not None:
        environment |= task_variables(task, environment)
    if no_keras_compat:
        environment[KERAS_COMPAT_VARIABLE] = "0"
    arguments = resolve_command(program)
    if task is not None:
        arguments = command_of(arguments, task)
        if task.is_chief:
            others = len(task.cluster) - 1
            click.echo(f"tfmuster: {task}, by {source}, with {others} other{'s' * (others != 1)}", err=True)
    code = run_child(arguments, environment, hosts_of(task.cluster) if task is not None else ())
    if code < 0:
        exit_as(code)
    if code == 0:
        leave_engine()
    return code


def _sets_tf_config(program: str) -> bool:
    """Return whether the program is a script that names its task itself."""
    path = Path(program)
    if path.suffix.lower() not in (".py", ".r") or not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return "TF_CONFIG" in text or "use_tf_config" in text
