"""Four machines on this one: a namespace each for network, processes, mounts and name, with an ssh server.

They are called node1 to node4 and know each other by these names; ssh knows them by the configuration file
made here. The launcher runs on a fifth, ``here``. Each has a working directory of its own at one path.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from support.launching import TFMUSTER, environment
from support.paths import PROGRAMS
from tfmuster.cluster.resolvers.batch import FIRST_PORT
from tfmuster.net.ports import free_ports

SSHD = "/usr/sbin/sshd"
NETWORK = "10.78.0"
#: All machines, as -H takes them.
ALL = "node1,node2,node3,node4"
#: A script that tells where it runs, and its task.
ECHO = """
import json, os, sys
print(json.dumps([os.uname().nodename, os.getcwd(), sys.argv, json.loads(os.environ["TF_CONFIG"])]))
"""


def daemon_ports(count: int) -> list[int]:
    """Free ports for the daemons of a batch system, which stay free of those that it gives to jobs."""
    ports: set[int] = set()
    while len(ports) < count:
        ports |= {port for port in free_ports(count) if port < FIRST_PORT}
    return list(ports)[:count]


@functools.cache
def why_not() -> str | None:
    """Why there can be no such machines, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux, for network namespaces"
    missing = [name for name in ("ip", "nft", "unshare", "ssh", "ssh-keygen", SSHD) if not shutil.which(name)]
    if missing:
        return f"needs {', '.join(missing)} (iproute2, nftables, openssh-client, openssh-server)"
    name = f"tfm{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    needed = "nft flush ruleset && unshare --pid --fork --mount --mount-proc --uts true"
    tried = ["ip", "netns", "exec", name, "sh", "-c", needed]
    works = made.returncode == 0 and subprocess.run(tried, capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None if works else "no namespaces, or no firewall in them, may be made here"


def run(*arguments: object) -> str:
    done = subprocess.run(
        list(map(str, arguments)),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


@dataclass
class Machine:
    name: str
    space: str
    address: str
    port: str
    folder: Path
    server: subprocess.Popen[bytes] | None = None

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def processes(self) -> list[str]:
        """Every process of the machine but its ssh server, in words."""
        assert self.server is not None
        found = []
        for number in run("ip", "netns", "pids", self.space).split():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
                line = b" ".join(words).decode(errors="replace").strip()
                if int(number) != self.server.pid and not line.startswith("sshd: /usr/sbin/sshd"):
                    found.append(f"{number}: {line}")
        return found


_NUMBERS = itertools.count()


class Network:
    """The machines, their cables and what may be done to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Several modules of one test run may have theirs at the same time.
        tag = f"tfm{os.getpid()}{chr(ord('a') + next(_NUMBERS))}"
        self.here = f"{tag}here"
        self.machines = {
            f"node{i}": Machine(f"node{i}", f"{tag}n{i}", f"{NETWORK}.{i}", f"p{i}", folder / f"node{i}")
            for i in range(1, 5)
        }
        # As unpleasant to a shell as a path may be.
        self.work = folder / "it's $(touch pwned) here"
        self.config = folder / "ssh_config"
        self._launchers: list[subprocess.Popen[str]] = []

    def build(self) -> None:
        self.work.mkdir(parents=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key")
        run("ip", "netns", "add", self.here)
        run("ip", "-n", self.here, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.here, "addr", "add", f"{NETWORK}.254/24", "dev", "br0")
        for device in ("br0", "lo"):
            run("ip", "-n", self.here, "link", "set", device, "up")
        names = [f"{machine.address} {machine.name}\n" for machine in self.machines.values()]
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(names))
        self.config.write_text(self.ssh_config())
        known = []
        for machine in self.machines.values():
            self._add(machine)
            key = (machine.folder / "host_key.pub").read_text()
            known.append(f"{machine.address} {key}")
        (self.folder / "known_hosts").write_text("".join(known))
        for machine in self.machines.values():
            self._wait_for(machine)

    def remove(self) -> None:
        self.end_launchers()
        for machine in self.machines.values():
            if machine.server is not None:
                # Its end is the end of the first process of the machine, and so of all.
                machine.server.kill()
                machine.server.wait()
        for space in (*(machine.space for machine in self.machines.values()), self.here):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False, timeout=10)

    def ssh_config(self, **more: str) -> str:
        """ssh's configuration; `more` has lines for one host, such as ``node2="SetEnv A=b"``."""
        hosts = {
            **{machine.name: machine.address for machine in self.machines.values()},
            "node9": f"{NETWORK}.9",
        }
        text = [
            f"Host {name}\n  HostName {address}\n  {more.get(name, '')}" for name, address in hosts.items()
        ]
        return "\n".join(
            [
                *text,
                "Host *",
                "  User root",
                f"  IdentityFile {self.folder}/key",
                "  IdentitiesOnly yes",
                f"  UserKnownHostsFile {self.folder}/known_hosts",
                "  GlobalKnownHostsFile /dev/null",
                # `make coverage` counts what runs there, too, and programs are forked (support/forks.py).
                "  SendEnv COVERAGE_* FORK_SERVERS PYTHONPATH",
                "",
            ]
        )

    def in_work(self, machine: str) -> Path:
        """What the machine has in its working directory."""
        return self.machines[machine].folder / "work"

    def launch(self, *arguments: object, limit: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """``tfmuster launch`` on ``here``, in the working directory."""
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=limit)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run_here(self, *command: object, limit: float = 60) -> str:
        """Run any command on ``here``, in the working directory; what it prints."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.here, *map(str, command)],
            cwd=self.work,
            env=environment(TFMUSTER_SSH_CONFIG=str(self.config)),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: object, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.here, *TFMUSTER, "launch", *map(str, arguments)],
            cwd=self.work,
            env=environment(TFMUSTER_SSH_CONFIG=str(self.config), **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._launchers.append(process)
        return process

    def end_launchers(self) -> None:
        """End those that a test which failed has left."""
        for process in self._launchers:
            process.kill()
            process.communicate()
        self._launchers.clear()

    def cut(self, machine: str) -> None:
        """Take the machine off the network; it sees its cable in place."""
        run("ip", "-n", self.here, "link", "set", self.machines[machine].port, "nomaster")

    def connect(self, machine: str) -> None:
        """Put the machine back on the network."""
        run("ip", "-n", self.here, "link", "set", self.machines[machine].port, "master", "br0", "up")

    def repair(self) -> None:
        """Put all machines back on the network, without a firewall and without files of earlier work."""
        for machine in self.machines.values():
            self.connect(machine.name)
            run("ip", "netns", "exec", machine.space, "nft", "flush", "ruleset")
        for folder in (self.work, *(self.in_work(name) for name in self.machines)):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.config.write_text(self.ssh_config())

    def firewall(self, machine: str, *, against: str) -> None:
        """Let nothing of another machine in to a port of this one, but for its answers and ssh."""
        rules = (
            "table inet tfmuster { chain in { type filter hook input priority 0; "
            f"ip saddr {self.machines[against].address} tcp dport != 22 "
            "tcp flags & (syn | ack) == syn drop; } ; }"
        )
        run("ip", "netns", "exec", self.machines[machine].space, "nft", rules)

    def give_little_room(self, machine: str) -> None:
        """Let the machine have 4 MiB for temporary files, until `give_room`."""
        self._on(machine, "mount", "-t", "tmpfs", "-o", "size=4m", "none", self.machines[machine].temporary)

    def give_room(self, machine: str) -> None:
        self._on(machine, "umount", self.machines[machine].temporary)

    @contextlib.contextmanager
    def account(
        self, machine: str, *, home: Path | str = "/root", shell: str = "/bin/bash"
    ) -> Iterator[None]:
        """Inside the block, the user of a machine has another home directory or shell there."""
        file = self.machines[machine].folder / "passwd"
        _, *others = Path("/etc/passwd").read_text().splitlines(keepends=True)
        file.write_text("".join([f"root:x:0:0:root:{home}:{shutil.which(shell)}\n", *others]))
        run(*self.inside(machine), "mount", "--bind", file, "/etc/passwd")
        try:
            yield
        finally:
            run(*self.inside(machine), "umount", "/etc/passwd")

    def _on(self, machine: str, *command: object) -> None:
        """Run a command among the machine's own mounts."""
        run("nsenter", "-t", self._first_process(machine), "-m", *command)

    def inside(self, machine: str) -> list[str]:
        """What to put before a command to run it on the machine, in its working directory."""
        entered = ["nsenter", "-t", str(self._first_process(machine)), "-m", "-n", "-p", "-u"]
        return [*entered, "sh", "-c", 'cd "$0" && exec "$@"', str(self.work)]

    def _first_process(self, machine: str) -> int:
        server = self.machines[machine].server
        assert server is not None
        (first,) = psutil.Process(server.pid).children()
        return int(first.pid)

    def nothing_left(self, seconds: float, but_logins_of: str | None = None) -> None:
        """Within some seconds no machine runs, or keeps, anything of a job.

        An ssh server that is cut off from its client has no way to know, and keeps its own process.
        """
        end = time.monotonic() + seconds
        login = f"{but_logins_of}: "
        while left := [line for line in self._left() if not (line.startswith(login) and "sshd: " in line)]:
            assert time.monotonic() < end, left
            time.sleep(0.05)
        # A login begins in the home directory, which the machines share.
        pwned = [*self.folder.rglob("pwned*"), *Path.home().glob("pwned*")]
        assert not pwned, pwned

    def drop_logins(self, machine: str) -> None:
        for process in self.machines[machine].processes():
            with contextlib.suppress(ProcessLookupError):  # it ends with one that has been killed before
                os.kill(int(process.split(":")[0]), signal.SIGKILL)

    def _left(self) -> list[str]:
        left = [f"{m.name}: {process}" for m in self.machines.values() for process in m.processes()]
        left += [str(path) for m in self.machines.values() for path in m.temporary.iterdir()]
        return left + [f"here: {number}" for number in run("ip", "netns", "pids", self.here).split()]

    def _add(self, machine: Machine) -> None:
        for folder in (machine.folder / "work", machine.temporary):
            folder.mkdir(parents=True)
        run("ip", "netns", "add", machine.space)
        cable = ["link", "add", machine.port, "type", "veth", "peer", "name", "eth0", "netns", machine.space]
        run("ip", "-n", self.here, *cable)
        self.connect(machine.name)
        run("ip", "-n", machine.space, "addr", "add", f"{machine.address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", machine.space, "link", "set", device, "up")
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", machine.folder / "host_key")
        (machine.folder / "sshd_config").write_text(
            f"HostKey {machine.folder}/host_key\nAuthorizedKeysFile {self.folder}/key.pub\n"
            f"SetEnv TMPDIR={machine.temporary}\n"
            "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nAcceptEnv *\n"
        )
        boot = (
            'hostname "$0" && mount --bind "$1/work" "$2" && mount --bind "$3/hosts" /etc/hosts && '
            f'mount -t tmpfs none /run && mkdir -p /run/sshd && exec {SSHD} -D -e -f "$1/sshd_config"'
        )
        folders = [str(folder) for folder in (machine.folder, self.work, self.folder)]
        spaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts"]
        with (machine.folder / "sshd.log").open("wb") as log:
            machine.server = subprocess.Popen(
                ["ip", "netns", "exec", machine.space, *spaces, "sh", "-c", boot, machine.name, *folders],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_for(self, machine: Machine) -> None:
        log = machine.folder / "sshd.log"
        end = time.monotonic() + 10
        while not re.search("Server listening on 0.0.0.0", log.read_text()):
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)


@contextlib.contextmanager
def built(folder: Path) -> Iterator[Network]:
    """The machines, gone again afterwards whatever happens."""
    network = Network(folder)
    try:
        network.build()
        yield network
    finally:
        network.remove()


def put(network: Network, name: str, text: str, on: Iterable[str] = tuple(ALL.split(","))) -> None:
    """Give machines a script."""
    for machine in on:
        (network.in_work(machine) / name).write_text(text)


def put_meet(network: Network) -> None:
    """Give all machines the script that meets the others, and then may wait."""
    put(network, "meet.py", (PROGRAMS / "meet.py").read_text())


def lines_of(done: subprocess.CompletedProcess[str], task: str) -> list[str]:
    """What a task has written, also what all have written alike."""
    shown = [line.partition(" | ") for line in done.stdout.splitlines()]
    return [
        text
        for name, _, text in shown
        if name.rstrip() == task or re.search(rf"{task}[],]|^\[\d+ \w+\]$", name)
    ]


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """What is said last and alone, without the path of the log."""
    return re.sub(r"Full output: .*/logs/", "Full output: LOGS/", done.stderr.split("\n\n", 1)[1])
