"""A standalone Spark cluster on this machine, of the processes that the pip distribution brings."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from support.launching import environment

#: Memory of the JVMs, and of the processes beside them.
JVM = "-Xmx384m"


def why_not() -> str | None:
    """Why there can be no such cluster, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "needs pyspark (pip install 'tfmuster[spark]')"
    return None if shutil.which("java") else "needs java (openjdk-17-jre-headless)"


@dataclass
class SparkCluster:
    folder: Path
    url: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, name: str, *arguments: object, before: Sequence[str] = (), **env: str
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """One of Spark's own classes, without the shell scripts that look for programs on PATH."""
        home = Path(str(importlib.util.find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *before,
                    str(shutil.which("java")),
                    JVM,
                    "-XX:+IgnoreUnrecognizedVMOptions",
                    "--add-opens=java.base/java.nio=ALL-UNNAMED",
                    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
                    "--add-opens=java.base/java.lang=ALL-UNNAMED",
                    "--add-opens=java.base/java.util=ALL-UNNAMED",
                    "-cp",
                    f"{home / 'jars'}/*",
                    *map(str, arguments),
                ],
                cwd=self.folder,
                env={**environment(), "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", **env},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.processes.append(process)
        return process, log

    def start_master(self) -> None:
        where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        process, log = self.start("master", "org.apache.spark.deploy.master.Master", *where)
        self.url = _said(process, log, r"Starting Spark master at (spark://\S+)")

    def start_worker(
        self, name: str, host: str = "127.0.0.1", node: str = "", **env: str
    ) -> subprocess.Popen[bytes]:
        """A worker of one slot; with `node` on a machine that has this name, as far as it can see."""
        where = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "512m"]
        process, log = self.start(
            name,
            "org.apache.spark.deploy.worker.Worker",
            *where,
            "--work-dir",
            self.folder / f"work of {name}",
            self.url,
            before=_on_node(node) if node else [],
            SPARK_LOCAL_IP=host,
            **env,
        )
        _said(process, log, "Successfully registered with master")
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.processes.remove(process)


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    end = time.monotonic() + 90
    while not (match := re.search(pattern, text := log.read_text(errors="replace"))):
        assert process.poll() is None and time.monotonic() < end, text[-3000:]
        time.sleep(0.1)
    return match[match.lastindex or 0]


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int, **env: str) -> Iterator[SparkCluster]:
    cluster = SparkCluster(folder)
    try:
        cluster.start_master()
        for number in range(workers):
            cluster.start_worker(f"worker{number}", **env)
        yield cluster
    finally:
        for process in reversed(list(cluster.processes)):
            cluster.stop(process)


def _on_node(name: str) -> list[str]:
    """What runs a command on a machine of this name, as far as it can see; PATH may have nothing on it."""
    return [str(shutil.which("unshare")), "--uts", "/bin/sh", "-c", '/bin/hostname "$0"; exec "$@"', name]


def may_rename_machines() -> bool:
    """Whether processes may be given a machine name of their own here."""
    try:
        done = subprocess.run([*_on_node("node9"), "/bin/true"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and not done.stderr


def few_programs(folder: Path, programs: Mapping[str, str] = MappingProxyType({}), **words: Path) -> Path:
    """A folder for PATH with a Python called tfm-python, and shell scripts by their names, words replaced."""
    folder.mkdir()
    for name, text in {"tfm-python": f'exec {sys.executable} "$@"', **programs}.items():
        for word, value in words.items():
            text = text.replace(word, str(value))
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def java_home() -> str:
    return str(Path(os.path.realpath(str(shutil.which("java")))).parent.parent)
