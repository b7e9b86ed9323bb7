"""A batch system on the machines of :mod:`hosts`: daemons, commands on ``here``, jobs that end."""

from __future__ import annotations

import abc
import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from support.hosts import Network

if TYPE_CHECKING:
    from typing_extensions import Self


class BatchCluster(abc.ABC):
    """Daemons of a batch system on ``here`` and on four machines."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.folder = network.folder / name
        self._daemons: list[subprocess.Popen[bytes]] = []

    @abc.abstractmethod
    def start(self) -> None:
        """Start the daemons, and wait for all machines."""

    @property
    @abc.abstractmethod
    def env(self) -> dict[str, str]:
        """The variables of the daemons and commands."""

    @abc.abstractmethod
    def jobs(self) -> list[str]:
        """Names and states of all jobs that are not over."""

    @abc.abstractmethod
    def end_jobs(self) -> None:
        """Ask the system to end all jobs."""

    @abc.abstractmethod
    def _left(self) -> list[str]:
        """What runs or lies on a machine, and is none of the daemons."""

    def _on_here(self) -> list[str]:
        """What stands in front of a command that runs on ``here``."""
        return ["ip", "netns", "exec", self.network.here]

    @contextlib.contextmanager
    def started(self) -> Iterator[Self]:
        """The system on the machines, gone afterwards whatever happens."""
        try:
            self.start()
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            family = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
            for process in reversed(family):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            daemon.wait()

    @property
    def shared(self) -> Path:
        """A directory that all machines have."""
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

    def empty(self) -> None:
        """End what a test has left, jobs and files."""
        self.end_jobs()
        self._wait_for(lambda: not self.jobs())
        for path in self.shared.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def nothing_left(self, seconds: float = 5) -> None:
        """Within some seconds no job is there, and nothing of one runs or lies on a machine."""
        self._wait_for(lambda: not self.jobs() and not self._left(), seconds)

    def _processes(self) -> list[str]:
        machines = self.network.machines.values()
        return [f"{machine.name}: {line}" for machine in machines for line in machine.processes()]

    def _daemon(self, *command: object, machine: str | None = None, env: Mapping[str, str]) -> None:
        enter = self._on_here()
        if machine is not None:
            server = self.network.machines[machine].server
            assert server is not None
            (first,) = psutil.Process(server.pid).children()
            enter = ["nsenter", "-t", str(first.pid), "-m", "-u", "-n", "-p"]
        program, *options = map(str, command)
        with (self.folder / f"{Path(program).name}-{machine}.log").open("wb") as log:
            daemon = subprocess.Popen(
                [*enter, program, *options],
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._daemons.append(daemon)

    def _wait_for(self, happened: Callable[[], object], seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, f"{self.jobs()}\n{self._left()}\n{self._texts()}"
            time.sleep(0.1)

    def _logs(self) -> Iterable[Path]:
        return self.folder.glob("*.log")

    def _texts(self) -> str:
        return "\n".join(f"{path}: {path.read_text()[-2000:]}" for path in self._logs())


@contextlib.contextmanager
def stopped(process: psutil.Process | subprocess.Popen[bytes]) -> Iterator[None]:
    """Within, a process does nothing."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
