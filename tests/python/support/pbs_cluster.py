"""PBS's commands over the Slurm of :mod:`slurm_cluster`: Debian's package slurm-wlm-torque.

``qsub``, ``qstat`` and ``qdel`` are the package's; ``PBS_JOBID`` and ``PBS_NODEFILE`` come from a prolog of
the tasks, as where a site has moved from PBS to Slurm. Inside a job ssh leads from host to host.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from support.hosts import Network
from support.slurm_cluster import NODES, Slurm

#: Where the set-up unpacks the package, which can't be installed beside Grid Engine's commands.
PACKAGE = Path(__file__).parents[3] / ".stamps" / "torque" / "usr" / "bin"
WRAPPERS = ("qsub", "qstat", "qdel", "generate_pbs_nodefile")

_PROLOG = """#!/bin/sh
# Its lines are variables of the task.
cd {folder} && nodes=$({folder}/generate_pbs_nodefile) && mv "$nodes" "nodes.$SLURM_JOB_ID"
echo "export PBS_JOBID=$SLURM_JOB_ID"
echo "export PBS_NODEFILE={folder}/nodes.$SLURM_JOB_ID"
"""


def why_not() -> str | None:
    """Why there can be no such PBS here, or None."""
    missing = [name for name in WRAPPERS if not (PACKAGE / name).exists()]
    return f"needs {', '.join(missing)} of slurm-wlm-torque in {PACKAGE}" if missing else None


class Pbs:
    """Slurm with PBS's commands first on PATH."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm = slurm
        self.folder = folder

    @property
    def variables(self) -> dict[str, str]:
        path = self.slurm.env["PATH"]
        return {"PATH": f"{self.folder}:{path}", "TFMUSTER_SSH_CONFIG": str(self.folder / "ssh_config")}


@contextlib.contextmanager
def started(network: Network) -> Iterator[Pbs]:
    """Slurm with PBS's commands on the machines, gone afterwards whatever happens."""
    folder = network.folder / "pbs"
    folder.mkdir()
    for name in WRAPPERS:
        (folder / name).symlink_to(PACKAGE / name)
    # The package's qsub looks for it beside itself.
    (folder / "sbatch").symlink_to(str(shutil.which("sbatch")))
    text = network.ssh_config()
    for node, machine in NODES.items():
        text = text.replace(f"Host {machine}\n", f"Host {machine} {node}\n")
    (folder / "ssh_config").write_text(text)
    prolog = folder / "prolog"
    prolog.write_text(_PROLOG.format(folder=folder))
    prolog.chmod(0o755)
    with Slurm(network, "slurm-of-pbs", f"TaskProlog={prolog}\n").started() as slurm:
        yield Pbs(slurm, folder)
