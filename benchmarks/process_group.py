"""Processes on a core each that measure the same at the same time, asked by JSON lines over their pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

#: Set for processes whose Keras is tf-keras 2.
LEGACY = "TF_USE_LEGACY_KERAS"

_MARK = "MEASURED "


class Group:
    """Processes of the running program that all get the same questions.

    Parameters
    ----------
    arguments : sequence of str
        Arguments by which the program knows that it must call `answer_questions`.
    count : int
        Number of processes.
    addresses : sequence of str
        Addresses of the workers of one job; empty for processes that know nothing of each other.
    python : str
        The interpreter; default: the one of this process.
    prefixes : sequence of sequence of str
        For each process, what stands before its command, such as a command that enters a namespace.
    **more : str
        Additional environment variables.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        count: int,
        addresses: Sequence[str],
        *,
        python: str = sys.executable,
        prefixes: Sequence[Sequence[str]] = (),
        **more: str,
    ) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        for index in range(count):
            environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **more}
            environment.pop("TF_CONFIG", None)
            if addresses:
                place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                environment["TF_CONFIG"] = json.dumps(place)
            core = str(index % (os.cpu_count() or 1))
            prefix = prefixes[index] if prefixes else ()
            command = [*prefix, "taskset", "-c", core, python, sys.argv[0], *arguments]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.processes.append(subprocess.Popen(command, env=environment, **pipes))

    def ask(self, *question: Any) -> list[Any]:
        """Return the answer of each process."""
        for each in self.processes:
            each.stdin.write(json.dumps(question) + "\n")
            each.stdin.flush()
        return [self._answer(each) for each in self.processes]

    def end(self) -> None:
        """Let the processes end."""
        for each in self.processes:
            each.stdin.close()
        for each in self.processes:
            each.wait(timeout=60)

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> Any:
        for line in process.stdout:
            if line.startswith(_MARK):
                return json.loads(line.removeprefix(_MARK))
        raise SystemExit("a process ended without measuring")


def answer_questions(measure: Callable[..., Any]) -> None:
    """In a process of a group, call `measure` for each question until the group ends."""
    for line in sys.stdin:
        print(_MARK + json.dumps(measure(*json.loads(line))), flush=True)
