"""Start an agent in each task of Spark's barrier stage, and wait for it to end.

This module is pickled to the executors, which may not have tfmuster. So it imports nothing from the package.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

from pyspark import Accumulator, AccumulatorParam, BarrierTaskContext

#: How long an executor's Python may take to import tfmuster, in seconds.
_IMPORT_SECONDS = 60
#: A host, and what its agent said.
Problem = dict[str, str]


def task_of(
    command: list[str], python: str | None, env: dict[str, str], troubles: Accumulator[list[Problem]]
) -> Callable[[object], Iterator[str]]:
    """Make the function that runs on each partition. It yields the host's problem as JSON, if there is one.

    `command` starts an agent with `python`, by default the executor's own. `troubles` reports to the driver,
    after the task has ended, why its agent failed.
    """

    def task(_: object) -> Iterator[str]:
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        host = socket.gethostname()
        address = context.getTaskInfos()[rank].address.rpartition(":")[0]
        interpreter = python or sys.executable
        problem = _why_not([interpreter, *command, "--try"])
        # Start only if all tasks have arrived and none has a problem.
        report = json.dumps({"host": host, "said": problem})
        if any(json.loads(text)["said"] for text in context.allGather(report)):
            yield report
            return
        words = [interpreter, *command, "--rank", str(rank), *(["--address", address] if address else [])]
        resources = context.resources()
        if "gpu" in resources:
            words.append(f"--gpus={','.join(resources['gpu'].addresses)}")
        agent = subprocess.run(
            words,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        if agent.returncode:
            problem = agent.stderr[-2000:] or f"exit code {agent.returncode}"
            troubles.add([{"host": host, "said": problem}])

    return task


class Collected(AccumulatorParam[list[Problem]]):
    """Collects the messages of tasks in a list."""

    def zero(self, value: list[Problem]) -> list[Problem]:
        """Return an empty list."""
        return []

    def addInPlace(self, value1: list[Problem], value2: list[Problem]) -> list[Problem]:
        """Return the messages of both."""
        return value1 + value2


def _why_not(command: list[str]) -> str:
    """Return the error output of a command that fails; "" if it succeeds."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_IMPORT_SECONDS,
            check=False,
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"no answer within {_IMPORT_SECONDS} s"
    return (done.stderr[-2000:] or f"exit code {done.returncode}") if done.returncode else ""
