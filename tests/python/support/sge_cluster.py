"""Sun Grid Engine on the machines of :mod:`hosts`: sge_qmaster on ``here``, sge_execd on each of four hosts.

The cell is a folder of its own, with ports of its own, spooled as plain files. Nothing of the machine's own
configuration of Grid Engine is read.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil

from support.batch_cluster import BatchCluster, stopped
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


class Sge(BatchCluster):
    """A cluster of four hosts with four slots each, as far as it believes."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, "sge")
        self.cell = self.folder / "cell"
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
        self._daemon(PROGRAMS_OF_DEBIAN / "sge_qmaster", env={**self.env, **_LIBRARIES})
        self._wait_for(lambda: self.run("qconf", "-sss").returncode == 0)
        self._configure()
        for machine in self.network.machines:
            self._daemon(PROGRAMS_OF_DEBIAN / "sge_execd", machine=machine, env=self.env)
        self._wait_for(lambda: self.output("qstat", "-f").count("lx-amd64") == len(self.network.machines))

    @property
    def env(self) -> dict[str, str]:
        inherited = {name: value for name, value in environment().items() if not name.startswith("SGE_")}
        return {**inherited, **self._env}

    def jobs(self) -> list[str]:
        # Not as an answer when the qmaster has none.
        answer = self._made("qstat", "-xml", "-u", "*")
        jobs = ElementTree.fromstring(answer).iter("job_list")
        return [f"{job.findtext('JB_name')} {job.findtext('state')}" for job in jobs]

    def end_jobs(self) -> None:
        self.run("qdel", "-u", "*")

    def without_master(self) -> contextlib.AbstractContextManager[None]:
        """Within, the qmaster answers nobody."""
        first = psutil.Process(self._daemons[0].pid)
        (master,) = first.children() or [first]
        return stopped(master)

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

    def _left(self) -> list[str]:
        temporary = [machine.temporary for machine in self.network.machines.values()]
        files = [str(path) for folder in temporary for path in folder.iterdir()]
        return [line for line in (*self._processes(), *files) if not line.endswith("/sge_execd")]

    def _on_here(self) -> list[str]:
        """What gives a command the name and the hosts of ``here``: Grid Engine compares names."""
        boot = 'hostname here && mount --bind "$0" /etc/hosts && exec "$@"'
        names = str(self.network.folder / "hosts")
        return [*super()._on_here(), "unshare", "--mount", "--uts", "sh", "-c", boot, names]

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

    def _logs(self) -> Iterable[Path]:
        return [
            *self.folder.glob("*.log"),
            *self.folder.glob("spool/messages"),
            *self.folder.glob("execd/*/messages"),
        ]
