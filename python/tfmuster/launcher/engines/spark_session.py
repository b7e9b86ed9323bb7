"""Find or make the Spark session of a job, and check how many tasks fit."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...errors import DependencyError, LaunchError
from ...options.hints import Hint
from ...system.interpreter import python_executable
from ...words import Words

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_APP = "tfmuster"
#: Default settings of new sessions. By default, Spark waits silently for slots for minutes.
_DEFAULTS = {
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "2",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile="
    + Path(__file__).with_name("spark_log4j2.properties").as_uri(),
}
_MASTER_SECONDS = 5.0
#: How long a new session may take to get its first executor, or one that it knows of, in seconds.
_FIRST_EXECUTOR_SECONDS = 120.0
#: How long after the last one another may come, in seconds.
_MORE_EXECUTORS_SECONDS = 10.0
#: Age after which a session is expected to have all its executors, in seconds.
_OLD_SECONDS = 60.0


@contextlib.contextmanager
def session_for(
    master: str | None, session: object, conf: Mapping[str, str], python: str | None
) -> Iterator[SparkContext]:
    """Yield the SparkContext of the given or existing session, or of a new one, which is stopped at the end.

    Raises DependencyError if pyspark or Java is missing, and LaunchError for any other reason.
    """
    context = _context_of(session) if session is not None else _active(master, conf)
    if context is not None:
        yield context
        return
    new_session = _new_session(master, conf, python)
    try:
        yield new_session.sparkContext
    finally:
        new_session.stop()


def refuse_secrets(conf: Mapping[str, str]) -> None:
    """Raise LaunchError for a Spark that encrypts its connections: TensorFlow does not encrypt its own."""
    if conf.get("spark.ssl.enabled", "false").lower() == "true":
        raise LaunchError(
            "TensorFlow's workers do not encrypt their connections, but this Spark requires encryption.",
            found="spark.ssl.enabled is true",
            fix=Words(
                "If the network between the executors is safe: {}.",
                Hint("backend_options", "plain=yes", "spark"),
            ),
            reason="plain",
        )


def check_slots(context: SparkContext, count: int) -> None:
    """Raise LaunchError, with how many tasks can run at the same time, unless all can."""
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    expected = _executors_of_its_own(context)
    old = time.time() - context.startTime / 1000 > _OLD_SECONDS
    begun = grown = time.monotonic()
    had = 0
    while True:
        # Asked before the slots: an executor that comes between both questions has its slots counted.
        complete = _one_process(context) or _executors(context) >= (expected or math.inf)
        if (slots := int(scala.maxNumConcurrentTasks(profile))) >= count:
            return
        now = time.monotonic()
        if slots > had:
            had, grown = slots, now
        if had and not expected:
            # A new session gets its executors one after the other.
            complete |= old or now - grown > _MORE_EXECUTORS_SECONDS
        if complete or now - begun > _FIRST_EXECUTOR_SECONDS:
            where = "this machine" if _one_process(context) else f"{_executors(context)} executors"
            raise LaunchError(
                "Spark must have a slot for every task, as all of them run at once.",
                found=f"{count} tasks, {slots} slots on {where} of {context.master}",
                fix="Start fewer workers, or give the session more: executors, cores (spark.executor.cores, "
                "spark.cores.max), GPUs, fewer for each task (spark.task.cpus), or a larger local[N].",
                reason="slots",
                slots=slots,
            )
        time.sleep(0.2)


def _executors_of_its_own(context: SparkContext) -> int | None:
    """Return how many executors a cluster on this machine starts, which is in its URL."""
    local = re.fullmatch(r"local-cluster\[ *(\d+) *,.*\]", str(context.master))
    return int(local[1]) if local else None


def _one_process(context: SparkContext) -> bool:
    """Return whether driver and executor are the same process."""
    return re.match(r"local(\[|$)", str(context.master)) is not None


def _executors(context: SparkContext) -> int:
    """Return the number of executors. Spark's list also has the driver."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def launcher_addresses_of(context: SparkContext) -> tuple[str, ...]:
    """Return the addresses by which the executors reach this machine."""
    if str(context.master).startswith("local"):
        return ("127.0.0.1",)
    host = str(context.getConf().get("spark.driver.host"))
    return (f"[{host}]" if ":" in host and not host.startswith("[") else host,)


def _context_of(session: object) -> SparkContext:
    """Return the context of a SparkSession, or the object itself if it is a context."""
    connect = ".connect." in type(session).__module__
    context: Any = None if connect else getattr(session, "sparkContext", session)
    if not hasattr(context, "_jsc"):
        raise LaunchError(
            "spark must be a SparkSession of pyspark in this process.",
            found=f"{type(session).__module__}.{type(session).__name__}",
            fix="Spark Connect has no barrier tasks: give a master instead. With sparklyr, use "
            "tf_config_from_barrier() in spark_apply(), or give a master.",
            reason="spark-session",
        )
    if context._jsc is None:
        raise LaunchError(
            "The Spark session must be running.", found="it was stopped", reason="spark-session"
        )
    return cast("SparkContext", context)


def _active(master: str | None, conf: Mapping[str, str]) -> SparkContext | None:
    """Return the existing context of this process; None if there is none."""
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise DependencyError(
            "The backend spark needs pyspark.",
            found=f"no module {error.name}",
            fix="pip install 'tfmuster[spark]'",
            package="pyspark",
        ) from error
    context = SparkContext._active_spark_context
    if context is None:
        return None
    other = {key: value for key, value in conf.items() if context.getConf().get(key) != value}
    if (master is not None and master != context.master) or other:
        raise LaunchError(
            "A process can have only one Spark session.",
            found=f"one of {context.master}" + (f", without {', '.join(other)}" if other else ""),
            fix="Stop it, or leave the master and the options out to use it.",
            reason="spark-session",
        )
    return context


def _new_session(master: str | None, conf: Mapping[str, str], python: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").is_file() if home else shutil.which("java")):
        raise DependencyError(
            "Spark needs Java, 17 or later.",
            found="no java on PATH, and no JAVA_HOME",
            fix="Install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless).",
            package="java",
        )
    _check_master(master)
    builder = SparkSession.builder.appName(_APP)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_DEFAULTS, **conf}.items():
        builder = builder.config(key, value)
    handler = signal.getsignal(signal.SIGINT)
    wanted = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or python
    try:
        session = builder.getOrCreate()
        session.sparkContext.pythonExec = wanted or python_executable()
        return session
    except Exception as error:
        raise LaunchError(
            "The Spark session could not be started.",
            found=f"{master or 'the default master'}: {first_line(error)}",
            fix="Read Spark's messages above, and check the master and the options.",
            reason="spark-session",
        ) from error
    finally:
        # Restore Python's signal handler: Spark's own suits only programs that do nothing else.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def first_line(error: BaseException) -> str:
    """Return the message of a Spark exception without Java's stack; for a Python worker, Python's message."""
    text = str(error)
    if python := re.search(
        r"Error from python worker:.*?\n *(\w+(?:Error|Exception): [^\n]*)", text, re.DOTALL
    ):
        return python[1][:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("at ", "An error occurred while calling"))]
    return re.sub(r"^: *", "", lines[0])[:300] if lines else type(error).__name__


def _check_master(master: str | None) -> None:
    """Raise LaunchError if the master does not answer, because Spark would wait a minute for it."""
    if master is None or not master.startswith("spark://"):
        return
    problems = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_MASTER_SECONDS).close()
            return
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise LaunchError(
        "The master of Spark must be reachable.",
        found="; ".join(problems),
        fix="Check the URL, spark://HOST:7077, and that the master runs.",
        reason="spark-master",
    )
