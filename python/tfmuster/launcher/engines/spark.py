"""Run the workers of a job on Spark's executors, as the tasks of one barrier stage.

All tasks of a barrier stage run at the same time, or none does. Each task starts an agent as a child process,
so that a second job in the same session is independent of the first. The agents connect to the driver, which
is this process (:mod:`..remote.engine_agents`). Output, values and files use that connection, not Spark.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import LaunchError, TfmusterError
from ...options import places
from ...options.hints import Hint
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Argument, Value, Words, now
from ..job import Job
from ..remote.engine_agents import AgentRequest, run_with_agents
from ..remote.host_checks import explain_ssh_failure, refusal
from ..supervise.time_limits import SPARK_STAGE
from .base import Engine, UnavailableError, find_program, refuse_hosts, version_of
from .spark_session import check_slots, first_line, launcher_addresses_of, refuse_secrets, session_for

if TYPE_CHECKING:
    from pyspark import SparkContext

_PLAIN = "plain"
#: Oldest version of Java that pyspark 4 supports.
_OLDEST_JAVA = 17
_AT_ONCE = Argument("wait", False)


@dataclass(frozen=True)
class Spark(Engine):
    """Runs jobs on Spark."""

    where: places.Spark = field(default_factory=places.Spark)

    #: Configuration of a new session for the job, such as ``spark.executor.memory``.
    conf: Mapping[str, str] = field(default_factory=dict)
    #: Use a Spark that encrypts its connections, although TensorFlow does not encrypt its own.
    plain: bool = False

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`. Raises LaunchError if a session was given: others can't use it."""
        if self.where.spark is not None:
            raise LaunchError(
                Words("With {}, another process starts the job, and it can't use this session.", _AT_ONCE),
                found=Words("{} together with a session", _AT_ONCE),
                fix="Give the master instead of the session.",
                reason="spark-session",
            )
        return ["--backend=spark", *self.where.on_command_line(copy=False)]

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        where = self.where
        if not self.plain:
            refuse_secrets(self.conf)
        with session_for(where.master, where.spark, self.conf, where.remote_python) as context:
            if not self.plain:
                refuse_secrets(dict(context.getConf().getAll()))
            check_slots(context, len(job.kinds))
            return run_with_agents(
                job,
                # Executors have their own working directories, so the script must be sent.
                where.changed(copy=True),
                partial(_Stage, context, python=where.remote_python),
                launcher_addresses=launcher_addresses_of(context),
                show=show,
                tell=tell,
            )


def make_engine(where: places.Spark) -> Spark:
    """Make the engine for Spark, from options such as ``spark.executor.cores=2`` and ``plain=yes``."""
    fix = Words("Leave them out, and name the master: {}.", Hint("master", "spark://node1:7077"))
    refuse_hosts(where, "Spark chooses the executors' hosts.", fix)
    conf = {}
    plain = False
    for option in where.backend_options:
        key, equals, value = option.partition("=")
        if key == _PLAIN and value in ("yes", "no"):
            plain = value == "yes"
        elif equals and key.startswith("spark."):
            conf[key] = value
        else:
            raise LaunchError(
                'An option of the backend spark must be a setting of Spark, or "plain=yes".',
                found=str(Value(option)),
                fix='Write it as "spark.executor.memory=4g".',
                reason="backend-option",
            )
    if where.spark is not None and (where.master is not None or conf):
        raise LaunchError(
            "A session already has a master and settings.",
            found="a session together with a master or settings",
            fix="Leave out one or the other.",
            reason="spark-session",
        )
    return Spark(where, conf=conf, plain=plain)


def available(seconds: float) -> str:
    """Return the versions of pyspark and Java."""
    if importlib.util.find_spec("pyspark") is None:
        raise UnavailableError("pyspark is not installed (pip install 'tfmuster[spark]')")
    pyspark = f"pyspark {importlib.metadata.version('pyspark')}"
    java_home = Path(os.environ.get("JAVA_HOME", ""), "bin", "java")
    java = (
        str(java_home)
        if java_home.is_absolute()
        else find_program("java", "apt-get install openjdk-17-jre-headless")
    )
    answer = version_of(java, "-version", seconds=seconds)
    version = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', answer.output + answer.errors)
    # Java 8 calls itself 1.8.
    number = int(version[2] or 0) if version and version[1] == "1" else int(version[1]) if version else 0
    if number < _OLDEST_JAVA:
        raise UnavailableError(
            f"{pyspark} needs Java {_OLDEST_JAVA} or later, and {java} is {answer.first_line}"
        )
    return f"{pyspark}, Java {number}"


class _Stage:
    """The barrier stage with the agents of one attempt, run in a thread of its own."""

    def __init__(self, context: SparkContext, request: AgentRequest, *, python: str | None) -> None:
        from pyspark import cloudpickle

        from . import spark_task

        # An executor without tfmuster must still be able to report that.
        register: Any = cloudpickle.register_pickle_by_value
        register(spark_task)
        self._context = context
        self._group = f"tfmuster-{request.job}"
        self._count = request.count
        self._results: list[dict[str, str]] = []
        self._error: Exception | None = None
        self._troubles = context.accumulator([], spark_task.Collected())
        command = request.command("python")[1:]
        self._task = spark_task.task_of(command, python, request.env, self._troubles)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def startup_error(self) -> TfmusterError | None:
        """Return the error that keeps agents from starting; None if there is none yet."""
        ended = not self._thread.is_alive()
        if ended and self._error is not None:
            return self._explained(self._error)
        reports = [*self._results, *self._troubles.value]
        if problems := {report["host"]: report["said"] for report in reports if report["said"]}:
            return self._refused(problems)
        if ended:
            return LaunchError("Spark has ended the tasks of the job.", reason="spark")
        return None

    def end(self) -> None:
        """Wait for the stage to end with its agents, and cancel it after a time limit."""
        self._thread.join(SPARK_STAGE.seconds)
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(SPARK_STAGE.seconds)

    def _run(self) -> None:
        try:
            # The job group is set for this thread's jobs only.
            self._context.setJobGroup(self._group, "workers of tfmuster")
            tasks = self._context.parallelize(range(self._count), self._count).barrier()
            self._results = [json.loads(text) for text in tasks.mapPartitions(self._task).collect()]
        except Exception as error:
            self._error = error

    def _refused(self, messages: Mapping[str, str]) -> LaunchError:
        """Make the error that lists the hosts that can't take part, from their messages."""
        findings = [{"host": host, **_finding(host, text)} for host, text in messages.items()]
        return refusal(findings, max(self._count, len(findings)))

    def _explained(self, error: Exception) -> TfmusterError:
        """Make an error that explains an error of Spark."""
        text = str(error)
        if "SPARK-24819" in text:
            return LaunchError(
                "Spark must have a slot for every task, as all of them run at once.",
                found=f"{self._count} tasks, and executors have been lost",
                reason="slots",
            )
        if "SPARK-24942" in text:
            return LaunchError(
                "Tasks that run at the same time need Spark without dynamic allocation.",
                found="spark.dynamicAllocation.enabled is true",
                fix="Set it to false for this session.",
                reason="dynamic-allocation",
            )
        failed = self._failed_tasks()
        faults = {host: _python_fault(message) for host, message in failed.items()}
        if faults and all(faults.values()):
            return self._refused(faults)
        where = f" on {', '.join(failed)}" if failed else ""
        return LaunchError(
            f"Spark could not run the tasks of the job{where}.",
            found=first_line(error),
            fix="See the logs of its executors.",
            reason="spark",
        )

    def _failed_tasks(self) -> dict[str, str]:
        """Return Spark's message about one failed task on each host."""
        scala = self._context._jsc.sc()
        messages: dict[str, str] = {}
        end = time.monotonic() + 2
        # Spark records the failure with a short delay.
        while not messages and time.monotonic() < end:
            tracker = self._context.statusTracker()
            for job in tracker.getJobIdsForGroup(self._group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info else ():
                    for attempt in range(4):
                        tasks = scala.statusStore().taskList(stage, attempt, self._count)
                        for at in range(tasks.length()):
                            task = tasks.apply(at)
                            if task.errorMessage().isDefined() and task.status() == "FAILED":
                                messages.setdefault(str(task.host()), str(task.errorMessage().get()))
            time.sleep(0.1)
        return messages


def _python_fault(message: str) -> str:
    """Return the line of a Spark error about the executor's Python; "" if the error has another cause."""
    match = re.search(f"Cannot run program .*|.*{_OTHER_VERSION}.*|No module named .*", message)
    return match[0].rstrip(". ") if match else ""


def _finding(host: str, output: str) -> dict[str, str]:
    """Return the problem that keeps a host from taking part, from its message."""
    if match := re.search(_OTHER_VERSION, output):
        code, message = "python-version", f"Python {match[1]}, the driver {match[2]}"
    else:
        known = explain_ssh_failure(host, output, 1, 0)
        code, message = known["code"], known["message"]
    return {
        "code": code,
        "message": message,
        "fix": str(now(_FIXES.get(code, "see the log of its executor"))),
    }


_OTHER_VERSION = r"different version: ([\d.]+) than that in driver:? ([\d.]+\d)"
_FIXES = {
    "no-python": "install the same Python on every host, or name it: spark.pyspark.python, PYSPARK_PYTHON",
    "python-version": "install the same Python on every host: spark.pyspark.python, PYSPARK_PYTHON",
    "no-tfmuster": Words(
        "install tfmuster in the executors' Python, or name another with {}", Hint("remote_python")
    ),
    "no-module": Words("install it in the executors' Python, or name another with {}", Hint("remote_python")),
}
