"""Slurm on the machines of :mod:`hosts`: munged and slurmctld on ``here``, a slurmd on each of four nodes.

The nodes are called vn1, vn2, vn9 and vn10: in the order of their names' letters, vn10 would be the second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

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


class Slurm:
    """A cluster of four nodes with four CPUs and two GPUs each, as far as it believes."""

    def __init__(self, network: Network, name: str = "slurm", more: str = "") -> None:
        self.network = network
        #: More lines of its configuration.
        self._more = more
        self.folder = network.folder / name
        self._daemons: list[subprocess.Popen[bytes]] = []

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
        self._daemon("munged", "--foreground", "--force", *options)
        wait_until((self.folder / "munge.socket").exists)
        self._daemon("slurmctld", "-D", "-i")
        for node, machine in NODES.items():
            (self.folder / f"spool-{node}").mkdir()
            self._daemon("slurmd", "-D", "-N", node, machine=machine)
        self._wait_for(lambda: self.output("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "4")

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            family = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
            for process in reversed(family):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            daemon.wait()

    @property
    def env(self) -> dict[str, str]:
        return environment(SLURM_CONF=str(self.folder / "slurm.conf"))

    @property
    def shared(self) -> Path:
        """A directory that all nodes have."""
        return self.folder / "it's $(shared)"

    def popen(self, *command: object, **env: str) -> subprocess.Popen[str]:
        """Start a command on ``here``, in the shared directory."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.network.here, *map(str, command)],
            cwd=self.shared,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: object, limit: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.popen(*command, **env)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(process.communicate()) from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def output(self, *command: object) -> str:
        return self.run(*command).stdout

    def jobs(self) -> list[str]:
        """Names and states of all jobs that are not over."""
        return self.output("squeue", "-h", "-o", "%j %T").split("\n")[:-1]

    def empty(self) -> None:
        """End what a test has left, jobs and files."""
        self.run("scancel", "--full", "--user=root")
        self._wait_for(lambda: not self.jobs())
        for path in self.shared.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    @contextlib.contextmanager
    def without_controller(self) -> Iterator[None]:
        """Within, the controller answers nobody."""
        controller = next(daemon for daemon in self._daemons if "/usr/sbin/slurmctld" in daemon.args)  # type: ignore[operator]
        controller.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            controller.send_signal(signal.SIGCONT)

    def nothing_left(self, seconds: float = 5) -> None:
        """Within some seconds no job is there, and nothing of one runs on a node."""
        self._wait_for(lambda: not self.jobs() and not self._left(), seconds)

    def _left(self) -> list[str]:
        found = [f"{m.name}: {line}" for m in self.network.machines.values() for line in m.processes()]
        return [line for line in found if "/slurmd -D -N " not in line]

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

    def _daemon(self, *command: object, machine: str | None = None) -> None:
        enter: Sequence[str] = ["ip", "netns", "exec", self.network.here]
        if machine is not None:
            server = self.network.machines[machine].server
            assert server is not None
            (first,) = psutil.Process(server.pid).children()
            enter = ["nsenter", "-t", str(first.pid), "-m", "-u", "-n", "-p"]
        name, *options = map(str, command)
        with (self.folder / f"{name}-{machine}.log").open("wb") as log:
            daemon = subprocess.Popen(
                [*enter, f"/usr/sbin/{name}", *options],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._daemons.append(daemon)

    def _wait_for(self, happened: Callable[[], object], seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"{self.jobs()}\n{self._left()}\n{self._logs()}"
            time.sleep(0.1)

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in Path(self.folder).glob("*.log"))


@contextlib.contextmanager
def started(network: Network, name: str = "slurm", more: str = "") -> Iterator[Slurm]:
    """Slurm on the machines, gone afterwards whatever happens."""
    slurm = Slurm(network, name, more)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
