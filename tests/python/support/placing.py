"""An engine that starts agents as plain processes of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.launching import environment
from tfmuster.errors import TfmusterError
from tfmuster.launcher.remote.engine_agents import AgentRequest
from tfmuster.options.places import Elsewhere


@dataclass
class Plain:
    where: Elsewhere = field(default_factory=lambda: Elsewhere(copy=True))
    launcher_addresses: Sequence[str] = ()
    #: Of which agents nothing comes, and which have another secret.
    absent: Sequence[int] = ()
    strange: Sequence[int] = ()
    gpus: Sequence[str | None] = ()
    env: dict[str, str] = field(default_factory=dict)
    calls: list[AgentRequest] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    why: TfmusterError | None = None

    def start(self, call: AgentRequest) -> Plain:
        self.calls.append(call)
        for rank in range(call.count):
            if rank in self.absent:
                continue
            secret = {"TFMUSTER_TOKEN": "0" * 64} if rank in self.strange else call.env
            gpus = [f"--gpus={self.gpus[rank]}"] if self.gpus and self.gpus[rank] is not None else []
            self.processes.append(
                subprocess.Popen(
                    [*call.command(sys.executable, rank=rank), *gpus],
                    env={**environment(**self.env), **secret},
                    # Not where the program is.
                    cwd=Path("/"),
                )
            )
        return self

    def startup_error(self) -> TfmusterError | None:
        return self.why

    def end(self) -> None:
        for process in self.processes:
            try:
                process.wait(timeout=4)
            except subprocess.TimeoutExpired:
                # It had not called yet.
                process.terminate()
                process.wait(timeout=4)
        self.processes.clear()
