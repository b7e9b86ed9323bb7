"""Pods of a job, on machines that are network namespaces."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from support.clock import PATIENCE
from support.hosts import Network

#: What every container has.
PLAIN = {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "HOME": str(Path.home()),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    **{name: os.environ[name] for name in ("R_LIBS",) if name in os.environ},
}


class Pods:
    """Pods of one job; the machines know them by no name yet."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.names = network.folder / "hosts"
        self._before = self.names.read_text()
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._told: list[str] = []

    def start(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """One more pod; the others know its name once it is told."""
        machine = f"node{len(self.running) + 1}"
        env = [f"{key}={value}" for key, value in {**PLAIN, **variables}.items()]
        # As in a container, the command is the first process of its own, and its end the end of all.
        first = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "env", "-i", *env]
        self.running[name] = subprocess.Popen(
            [*self.network.inside(machine), *first, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._told.append(f"{self.network.machines[machine].address} {name}\n")

    def tell_names(self) -> None:
        """What a Service does when its pods are there. The file stays the one that the machines have."""
        with self.names.open("a") as file:
            file.writelines(self._told)

    def ends(self, limit: float) -> dict[str, tuple[int, str]]:
        """Exit code and output of each, within some seconds altogether."""
        end = time.monotonic() + PATIENCE * limit
        ended = {}
        for name, pod in self.running.items():
            out, _ = pod.communicate(timeout=max(0.1, end - time.monotonic()))
            ended[name] = (pod.returncode, out)
        return ended

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a pod's first process, if it is there still."""
        process = psutil.Process(self.running[name].pid)
        for _ in ("unshare", "the command"):
            (process,) = process.children()
        process.send_signal(number)

    def forget(self) -> None:
        """What a Service does when all pods have ended. Others may follow with the same names."""
        assert all(pod.poll() is not None for pod in self.running.values())
        self.running, self._told = {}, []
        with self.names.open("r+") as file:
            file.truncate(len(self._before))

    def remove(self) -> None:
        for name, pod in self.running.items():
            with contextlib.suppress(psutil.Error, ValueError):
                self.signal(name, signal.SIGKILL)
            pod.communicate()
        with self.names.open("r+") as file:
            file.truncate(len(self._before))
