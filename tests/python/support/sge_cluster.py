"""Sun Grid Engine on the machines of :mod:`hosts`: sge_qmaster on ``here``, sge_execd on each of four hosts.

The cell is a folder of its own, with ports of its own, spooled as plain files. Nothing of the machine's own
configuration of Grid Engine is read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil

from support.hosts import NETWORK, Network, daemon_ports
from support.launching import environment

SHARE, PROGRAMS_OF_DEBIAN = Path("/usr/share/gridengine"), Path("/usr/lib/gridengine")
PROGRAMS = ("sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qconf", "qrsh", "qacct")
#: Where the library is found that spools.
_LIBRARIES = {"LD_LIBRARY_PATH": str(PROGRAMS_OF_DEBIAN)}
SLOTS = 4
#: Parallel environments, and how each spreads a job over the hosts.
ENVIRONMENTS = {"spread": "$round_robin", "fill": "$fill_up", "two": "2", "loose": "$round_robin"}
#: The one that does not let a job start tasks on its hosts.
LOOSE = "loose"

_BOOTSTRAP = """
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params {cell}/common;{folder}/spool
binary_path {programs}
qmaster_spool_dir {folder}/spool
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
_ENVIRONMENT = """
pe_name {name}
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves {control}
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
_HOST_GROUP = """
group_name @allhosts
hostlist {hosts}
"""
#: What differs from the configuration that Debian begins with.
_CONFIGURATION = {
    "execd_spool_dir": "{folder}/execd",
    "min_uid": "0",
    "min_gid": "0",
    "mailer": "/bin/true",
    "load_report_time": "00:00:01",
    "execd_params": "ENABLE_ADDGRP_KILL=true",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
}


def why_not() -> str | None:
    """Why there can be no Grid Engine here, or None."""
    missing = [name for name in PROGRAMS if not (PROGRAMS_OF_DEBIAN / name).exists()]
    needed = "gridengine-master, gridengine-exec, gridengine-client"
    return f"needs {', '.join(missing)} ({needed})" if missing else None


class Sge:
    """A cluster of four hosts with four slots each, as far as it believes."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.folder = network.folder / "sge"
        self.cell = self.folder / "cell"
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._env: dict[str, str] = {}

    def start(self) -> None:
        (self.cell / "common").mkdir(parents=True)
        (self.folder / "execd").mkdir()
        (self.folder / "spool").mkdir()
        (self.folder / "spool" / "job_scripts").mkdir()
        self.shared.mkdir()
        with (self.network.folder / "hosts").open("a") as hosts:
            hosts.write(f"{NETWORK}.254 here\n")
        for part in ("bin", "lib", "utilbin"):
            (self.folder / part).mkdir()
            (self.folder / part / "lx-amd64").symlink_to(PROGRAMS_OF_DEBIAN)
        (self.folder / "util").symlink_to(SHARE / "util")
        qmaster, execd = daemon_ports(2)
        self._env = {
            "SGE_ROOT": str(self.folder),
            "SGE_CELL": self.cell.name,
            "SGE_ARCH": "lx-amd64",
            "SGE_QMASTER_PORT": str(qmaster),
            "SGE_EXECD_PORT": str(execd),
            "SGE_ND": "1",  # do not become a daemon
        }
        (self.cell / "common" / "bootstrap").write_text(
            _BOOTSTRAP.format(cell=self.cell, folder=self.folder, programs=PROGRAMS_OF_DEBIAN).lstrip()
        )
        (self.cell / "common" / "act_qmaster").write_text("here\n")
        self._spool()
        self._daemon("sge_qmaster")
        self._wait_for(lambda: self.run("qconf", "-sss").returncode == 0)
        self._configure()
        for machine in self.network.machines:
            self._daemon("sge_execd", machine=machine)
        self._wait_for(lambda: self.output("qstat", "-f").count("lx-amd64") == len(self.network.machines))

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            family = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
            for process in reversed(family):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            daemon.wait()

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in environment().items() if not name.startswith("SGE_")}
        return {**inherited, **self._env}

    @property
    def shared(self) -> Path:
        """A directory that all hosts have."""
        return self.folder / "it's $(shared)"

    def popen(self, *command: object, **env: str) -> subprocess.Popen[str]:
        """Start a command on ``here``, in the shared directory."""
        return subprocess.Popen(
            [*self._on_here(), *map(str, command)],
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
        # Not as an answer when the qmaster has none.
        answer = self._made("qstat", "-xml", "-u", "*")
        jobs = ElementTree.fromstring(answer).iter("job_list")
        return [f"{job.findtext('JB_name')} {job.findtext('state')}" for job in jobs]

    def empty(self) -> None:
        """End what a test has left, jobs and files."""
        self.run("qdel", "-u", "*")
        self._wait_for(lambda: not self.jobs())
        for path in self.shared.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    @contextlib.contextmanager
    def without_master(self) -> Iterator[None]:
        """Within, the qmaster answers nobody."""
        (master,) = psutil.Process(self._daemons[0].pid).children() or [psutil.Process(self._daemons[0].pid)]
        master.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            master.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def environments(self, *names: str) -> Iterator[None]:
        """Within, the queue has these parallel environments only, and there are no others."""
        others = [name for name in ENVIRONMENTS if name not in names]
        self._made("qconf", "-rattr", "queue", "pe_list", " ".join(names) or "NONE", "all.q")
        for name in others:
            self._made("qconf", "-dp", name)
        try:
            yield
        finally:
            for name in others:
                self._made("qconf", "-Ap", self.folder / f"{name}.txt")
            self._made("qconf", "-rattr", "queue", "pe_list", " ".join(ENVIRONMENTS), "all.q")

    def kill_launcher(self, machine: str) -> None:
        """End the batch job's launcher on a host, as if memory had run out there."""
        for line in self.network.machines[machine].processes():
            number, _, command = line.partition(": ")
            if "-m tfmuster launch " in command:
                os.kill(int(number), signal.SIGKILL)

    def nothing_left(self, seconds: float = 5) -> None:
        """Within some seconds no job is there, and nothing of one runs or lies on a host."""
        self._wait_for(lambda: not self.jobs() and not self._left(), seconds)

    def _left(self) -> list[str]:
        machines = self.network.machines.values()
        found = [f"{machine.name}: {line}" for machine in machines for line in machine.processes()]
        found += [str(path) for machine in machines for path in machine.temporary.iterdir()]
        return [line for line in found if not line.endswith("/sge_execd")]

    def _on_here(self) -> list[str]:
        """What gives a command the name and the hosts of ``here``: Grid Engine compares names."""
        boot = 'hostname here && mount --bind "$0" /etc/hosts && exec "$@"'
        names = str(self.network.folder / "hosts")
        return [
            "ip",
            "netns",
            "exec",
            self.network.here,
            "unshare",
            "--mount",
            "--uts",
            "sh",
            "-c",
            boot,
            names,
        ]

    def _spool(self) -> None:
        """What the qmaster reads at its start, as the installation of Debian's package makes it."""
        params = f"{self.cell}/common;{self.folder}/spool"
        tool = PROGRAMS_OF_DEBIAN
        self._made(tool / "spoolinit", "classic", "libspoolc", params, "init", **_LIBRARIES)
        lines = (SHARE / "default-configuration").read_text().splitlines()
        known = {line.split()[0]: line for line in lines if line and not line.startswith("#")}
        known |= {
            name: f"{name} {value.format(folder=self.folder)}" for name, value in _CONFIGURATION.items()
        }
        first = self.folder / "configuration"
        first.write_text("\n".join(known.values()) + "\n")
        for what, where in {
            "configuration": first,
            "complexes": SHARE / "util/resources/centry",
            "usersets": SHARE / "util/resources/usersets",
        }.items():
            self._made(tool / "spooldefaults.bin", what, where, **_LIBRARIES)
        self._made(tool / "spooldefaults.bin", "managers", "root", **_LIBRARIES)

    def _configure(self) -> None:
        self._made("qconf", "-as", "here")
        for machine in self.network.machines:
            self._made("qconf", "-ah", machine)
        hosts = " ".join(self.network.machines)
        self._made("qconf", "-Ahgrp", self._file("group", _HOST_GROUP.format(hosts=hosts)))
        for name, rule in ENVIRONMENTS.items():
            self._made(
                "qconf",
                "-Ap",
                self._file(name, _ENVIRONMENT.format(name=name, rule=rule, control=name != LOOSE)),
            )
        queue = dict(line.split(None, 1) for line in self._lines("qconf", "-sq") if len(line.split()) > 1)
        queue |= {
            "qname": "all.q",
            "hostlist": "@allhosts",
            "pe_list": " ".join(ENVIRONMENTS),
            "slots": str(SLOTS),
            "rerun": "FALSE",
            "shell": "/bin/sh",
            "shell_start_mode": "unix_behavior",
            "load_thresholds": "NONE",
            "notify": "00:00:10",
            # Each host has a folder of its own for temporary files, as it would have on its own disk.
            "tmpdir": ",".join(
                ["/tmp", *(f"[{m.name}={m.temporary}]" for m in self.network.machines.values())]
            ),
        }
        self._made("qconf", "-Aq", self._file("queue", "\n".join(" ".join(item) for item in queue.items())))
        scheduler = dict(line.split(None, 1) for line in self._lines("qconf", "-ssconf"))
        scheduler |= {
            "schedule_interval": "0:0:1",
            "flush_submit_sec": "1",
            "flush_finish_sec": "1",
            "load_adjustment_decay_time": "0:0:0",
            "job_load_adjustments": "NONE",
        }
        text = "\n".join(" ".join(item) for item in scheduler.items())
        self._made("qconf", "-Msconf", self._file("scheduler", text))

    def _file(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.txt"
        path.write_text(text.strip() + "\n")
        return path

    def _lines(self, *command: object) -> list[str]:
        # A backslash continues a line.
        return self._made(*command).replace("\\\n", " ").splitlines()

    def _made(self, *command: object, **env: str) -> str:
        done = self.run(*command, **env)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def _daemon(self, name: str, machine: str | None = None) -> None:
        enter = self._on_here()
        if machine is not None:
            server = self.network.machines[machine].server
            assert server is not None
            (first,) = psutil.Process(server.pid).children()
            enter = ["nsenter", "-t", str(first.pid), "-m", "-u", "-n", "-p"]
        with (self.folder / f"{name}-{machine}.log").open("wb") as log:
            daemon = subprocess.Popen(
                [*enter, str(PROGRAMS_OF_DEBIAN / name)],
                env=self.env if machine else {**self.env, **_LIBRARIES},
                cwd="/",
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
        logs = [
            *self.folder.glob("*.log"),
            *self.folder.glob("spool/messages"),
            *self.folder.glob("execd/*/messages"),
        ]
        return "\n".join(f"{path}: {path.read_text()[-2000:]}" for path in logs)


@contextlib.contextmanager
def started(network: Network) -> Iterator[Sge]:
    """Grid Engine on the machines, gone afterwards whatever happens."""
    sge = Sge(network)
    try:
        sge.start()
        yield sge
    finally:
        sge.stop()
