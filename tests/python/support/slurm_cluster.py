"""Slurm on the machines of :mod:`hosts`: munged and slurmctld on ``here``, a slurmd on each of four nodes.

The nodes are called vn1, vn2, vn9 and vn10: in the order of their names' letters, vn10 would be the second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat

from support.batch_cluster import BatchCluster, stopped
from support.hosts import NETWORK, Network, daemon_ports
from support.launching import environment, wait_until

#: The nodes' names, and the machines that they are.
NODES = {"vn1": "node1", "vn2": "node2", "vn9": "node3", "vn10": "node4"}
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")
#: Each node has a device file for each of its two pretended GPUs.
GPUS = 2

_CONFIGURATION = """
ClusterName=tfmuster
SlurmctldHost={here}({network}.254)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=3
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=100000,sched_interval=1
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str | None:
    """Why there can be no Slurm here, or None."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
    return f"needs {', '.join(missing)} (slurmctld, slurmd, slurm-client, munge)" if missing else None


class Slurm(BatchCluster):
    """A cluster of four nodes with four CPUs and two GPUs each, as far as it believes."""

    def __init__(self, network: Network, name: str = "slurm", more: str = "") -> None:
        super().__init__(network, name)
        #: More lines of its configuration.
        self._more = more

    def start(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        self.shared.mkdir()
        with (self.network.folder / "hosts").open("a") as hosts:
            for node, machine in NODES.items():
                hosts.write(f"{self.network.machines[machine].address} {node}\n")
        self._configure()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {"key-file": key, "socket": self.folder / "munge.socket"}
        files |= {f"{what}-file": self.folder / f"munge.{what}" for what in ("pid", "log", "seed")}
        options = [f"--{name}={path}" for name, path in files.items()]
        self._daemon("/usr/sbin/munged", "--foreground", "--force", *options, env=self.env)
        wait_until((self.folder / "munge.socket").exists)
        self._daemon("/usr/sbin/slurmctld", "-D", "-i", env=self.env)
        for node, machine in NODES.items():
            (self.folder / f"spool-{node}").mkdir()
            self._daemon("/usr/sbin/slurmd", "-D", "-N", node, machine=machine, env=self.env)
        self._wait_for(lambda: self.output("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "4")

    @property
    def env(self) -> dict[str, str]:
        return environment(SLURM_CONF=str(self.folder / "slurm.conf"))

    def jobs(self) -> list[str]:
        return self.output("squeue", "-h", "-o", "%j %T").split("\n")[:-1]

    def end_jobs(self) -> None:
        self.run("scancel", "--full", "--user=root")

    def without_controller(self) -> contextlib.AbstractContextManager[None]:
        """Within, the controller answers nobody."""
        return stopped(
            next(daemon for daemon in self._daemons if "/usr/sbin/slurmctld" in daemon.args)  # type: ignore[operator]
        )

    def _left(self) -> list[str]:
        return [line for line in self._processes() if "/slurmd -D -N " not in line]

    def _configure(self) -> None:
        controller, node = daemon_ports(2)
        nodes = [
            f"NodeName={name} NodeHostname={machine} NodeAddr={self.network.machines[machine].address} "
            f"CPUs=4 RealMemory=1000 Gres=gpu:{GPUS} State=UNKNOWN"
            for name, machine in NODES.items()
        ]
        text = _CONFIGURATION.format(
            here=socket.gethostname(),
            network=NETWORK,
            folder=self.folder,
            controller=controller,
            node=node,
            nodes="\n".join(nodes),
        )
        text += self._more
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for number in range(GPUS):
            os.mknod(self.folder / f"gpu{number}", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        (self.folder / "gres.conf").write_text(
            f"AutoDetect=off\nName=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n"
        )
