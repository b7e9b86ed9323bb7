"""Real processes that meet on loopback, for the tests of the rendezvous and the control line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfmuster.cluster.spec import Cluster
from tfmuster.net.ports import free_ports

VERSIONS = {"tfmuster": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11"}

# What every process runs: meet, say how it went, do what the test wants (`then`), say how that went.
_TASK = """
import json, os, sys, time
from tfmuster.cluster.spec import Cluster
from tfmuster.errors import TfmusterError
from tfmuster.rendezvous.task.meet import muster

given = json.loads(sys.argv[1])
task = Cluster.from_dict(given["cluster"]).task(*given["task"])
began = time.monotonic()

def say(**what):
    print(json.dumps({**what, "seconds": time.monotonic() - began}), flush=True)

try:
    control = muster(task, timeout=given["timeout"], token=given["token"], versions=given["versions"])
except TfmusterError as error:
    say(event="error", text=str(error), error=error.to_dict())
    sys.exit(error.exit_code)
say(event="go")
try:
    exec(given["then"])
except TfmusterError as error:
    control.report_exception(error)
    say(event="failed", text=str(error), error=error.to_dict(), failure=control.first_failure)
    sys.exit(error.exit_code)
say(event="end")
"""


@dataclass
class Started:
    """A started task; `result()` waits for its end."""

    name: str
    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def result(self, limit: float = 30.0) -> Result:
        out, err = self.process.communicate(timeout=limit)
        return Result(self.name, self.process.returncode, [json.loads(x) for x in out.splitlines()], err)

    def wait_for_go(self) -> None:
        assert self.process.stdout is not None
        assert json.loads(self.process.stdout.readline())["event"] == "go"


@dataclass
class Result:
    name: str
    code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def text(self) -> str:
        return str(self.last["text"])


@dataclass
class Job:
    """Starts tasks of clusters on loopback; kills what is left at the end of the test."""

    started: list[Started] = field(default_factory=list)

    def start(
        self,
        cluster: Cluster,
        type: str = "worker",
        index: int = 0,
        *,
        timeout: float | None = 20,
        token: str | None = None,
        versions: Mapping[str, str] = VERSIONS,
        then: str = "control.done()",
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Started:
        given = {
            "cluster": cluster.to_dict(),
            "task": [type, index],
            "timeout": timeout,
            "token": token,
            "versions": dict(versions),
            "then": then,
        }
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", _TASK, json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.started.append(Started(f"{type} {index}", process))
        return self.started[-1]

    def start_all(self, cluster: Cluster, **options: Any) -> list[Started]:
        return [self.start(cluster, task.type, task.index, **options) for task in cluster.tasks()]

    def end(self) -> None:
        for started in self.started:
            if started.process.poll() is None:
                started.process.kill()
            started.process.wait()
            for pipe in (started.process.stdout, started.process.stderr):
                if pipe is not None:
                    pipe.close()


def local_cluster(
    worker: int = 3, *, chief: int = 0, ps: int = 0, evaluator: int = 0, host: str = "127.0.0.1"
) -> Cluster:
    """A cluster on free ports of this machine."""
    ports = iter(free_ports(worker + chief + ps + evaluator))
    jobs = {"chief": chief, "worker": worker, "ps": ps, "evaluator": evaluator}
    return Cluster(**{name: [f"{host}:{next(ports)}" for _ in range(n)] for name, n in jobs.items()})
