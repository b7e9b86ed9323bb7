"""What each task of Spark's barrier stage does: it starts an agent, and waits for its end.

It goes to the executors as it is, because they may have no tfmuster: nothing of the package is imported here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import AccumulatorParam, BarrierTaskContext

#: How long an executor's Python may take to import tfmuster, seconds.
_IMPORT_SECONDS = 60


def task_of(
    command: list[str], python: str | None, env: dict[str, str], troubles: Any
) -> Callable[[Any], Iterator[str]]:
    """The function of each partition.

    Parameters
    ----------
    command : list of str
        Starts an agent, behind the Python and before its rank.
    python : str or None
        The Python to run it; the executor's own unless given.
    env : dict
        What has to be in its environment.
    troubles : Accumulator
        Takes to the driver, once a task has ended, why its agent could not go on.

    Returns
    -------
    callable
        Gives, as JSON, what is wrong on which host if something is, and else nothing.
    """

    def task(_: Any) -> Iterator[str]:
        context = BarrierTaskContext.get()
        rank = context.partitionId()
        host = socket.gethostname()
        address = context.getTaskInfos()[rank].address.rpartition(":")[0]
        interpreter = python or sys.executable
        said = _why_not([interpreter, *command, "--try"])
        # Everyone is here, and everyone is able to, or nobody starts.
        everyone = [json.loads(text) for text in context.allGather(json.dumps({"host": host, "said": said}))]
        if any(one["said"] for one in everyone):
            yield json.dumps({"host": host, "said": said})
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
            said = agent.stderr[-2000:] or f"exit code {agent.returncode}"
            troubles.add([{"host": host, "said": said}])

    return task


class Collected(AccumulatorParam[list[Any]]):
    """What tasks have to tell, as a list."""

    def zero(self, value: list[Any]) -> list[Any]:
        """Nothing."""
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        """Of both."""
        return value1 + value2


def _why_not(command: list[str]) -> str:
    """What a command says that fails; "" if it does not."""
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
        return f"nothing within {_IMPORT_SECONDS} s"
    return (done.stderr[-2000:] or f"exit code {done.returncode}") if done.returncode else ""
