"""A job that trains on hosts while they are lost, and whose weights are compared at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.hosts import Network
from support.launching import wait_until
from support.paths import PROGRAMS
from tfmuster.tracking.run import Run

PROGRAM = PROGRAMS / "preempted.py"
#: Of all jobs here that train, so that only the order of sums differs.
SAME = ("--seed", 5, "--env", "FLOATX=float64")


class Training:
    """A job of `preempted.py` on some hosts, slow from a given step on until it may be fast."""

    def __init__(
        self,
        network: Network,
        folder: Path,
        hosts: int,
        *options: object,
        step: int = 8,
        seconds: float = 0.2,
        shared: bool = True,
    ) -> None:
        self.network, self.folder = network, folder
        self.machines = [network.in_work(f"node{i + 1}") for i in range(hosts)]
        path = folder / "run" if shared else network.work / "runs" / "own"
        self.run = Run(path)
        self.process = network.start(
            *(*options, *SAME, "--run-dir", path, "--start-timeout", 20),
            *("--", PROGRAM, folder, "steps", step, seconds),
        )

    @property
    def clusters(self) -> list[list[str]]:
        """The hosts of each attempt."""
        info = self.run.info()
        clusters = info.get("clusters", [info["cluster"]] if info else [])
        return [[address.split(":")[0] for address in each["worker"]] for each in clusters]

    def wait_for(self, *hosts: str, seconds: float = 100) -> None:
        """Wait until an attempt trains on these hosts, slowly."""
        reached = [
            self.network.in_work(host) / f"reached-{index}" for index, host in enumerate(hosts) if host
        ]

        def trains() -> bool:
            here = self.clusters[-1:] == [list(hosts)] and all(path.exists() for path in reached)
            return here or self.process.poll() is not None

        wait_until(trains, seconds)
        assert self.process.poll() is None, self.process.communicate()
        for path in reached:
            path.unlink()

    def finish(self, undisturbed: Path, task: int = 0, seconds: float = 150) -> tuple[str, str]:
        """Let it train fast, and compare what it ends with; return what it and its launcher have said."""
        for machine in self.machines:
            (machine / "fast").touch()
        said, errors = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, said + errors
        with np.load(self.folder / f"final-{task}.npz") as now, np.load(undisturbed) as then:
            assert set(now.files) == set(then.files) and "loss" in then.files
            for name in then.files:
                np.testing.assert_allclose(now[name], then[name], atol=1e-5, err_msg=name)
        return said, errors

    def clear(self, *lost: str) -> None:
        """Repair the network, end what was lost, and remove the program's files."""
        self.network.repair()
        for host in lost:
            self.network.drop_logins(host)
        for machine in self.machines:
            for path in (*machine.glob("reached-*"), *machine.glob("fast")):
                path.unlink()
