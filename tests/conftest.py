"""All tests of Python and R, in one run of pytest: who runs what, and what it took."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from support.clock import PATIENCE, PatientPopen
from support.deadline import Running
from support.forks import ForkServers
from support.r_files import RFile
from support.scheduling import ByFile
from support.selection import left, unknown

# A shell that starts the tests in the background has them ignore Ctrl-C, and nohup or a session without a
# terminal has them ignore a hang-up; all that they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

HERE = Path(__file__).parent
NO_TIME = "no time is left"


class Interrupts:
    """Passes an interrupt on to pytest's processes, which are in other sessions and have clusters to end."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["pids"] = self._folder

    def pytest_keyboard_interrupt(self) -> None:
        for pid in os.listdir(self._folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGINT)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._folder)


def pytest_configure(config: pytest.Config) -> None:
    subprocess.Popen = PatientPopen  # type: ignore[misc]
    config.pluginmanager.register(Running())
    if hasattr(config, "workerinput"):
        # Linux shares processors among sessions before it does among their processes, and each worker of a
        # job has one. In that of all tests, a cluster of Spark took ten minutes to start in place of one.
        os.setsid()
        Path(config.workerinput["pids"], str(os.getpid())).touch()
    else:
        config.pluginmanager.register(Interrupts())
    # The same servers for all processes of pytest. Coverage follows programs from their start, and only Linux
    # lets a program enter other namespaces.
    in_coverage = "COVERAGE_PROCESS_CONFIG" in os.environ
    if not hasattr(config, "workerinput") and sys.platform == "linux" and not in_coverage:
        config.add_cleanup(ForkServers().close)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> RFile | None:
    in_folder = file_path.parent == HERE / "testthat"
    if in_folder and file_path.name.startswith("test-") and file_path.suffix == ".R":
        return RFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if left(item.nodeid):
            item.add_marker(pytest.mark.rest)
        marked = item.get_closest_marker("timeout")
        limit = marked.args[0] if marked else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(PATIENCE * limit), append=False)
    if {"tests/python", "tests/testthat"} <= set(config.args) and (
        stale := unknown([each.nodeid for each in items])
    ):
        raise pytest.UsageError(f"support/selection.py names tests that do not exist: {', '.join(stale)}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what `make test` leaves out if the machine has been too slow; see .ci/run."""
    if item.get_closest_marker("rest") and time.time() > float(os.environ.get("TESTS_UNTIL", "inf")):
        pytest.skip(NO_TIME)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Let several processes of pytest share the tests by file."""
    return ByFile(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how long the tests of each folder took, and what testthat counted."""
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    in_r: Counter[str] = Counter()
    for report in (each for group in terminalreporter.stats.values() for each in group):
        if not isinstance(report, pytest.TestReport):
            continue
        parts = Path(report.nodeid.partition("::")[0]).parts[:-1]
        folder = "/".join(parts[: 4 if parts[2:3] == ("engines",) else 3])
        seconds[folder] += report.duration
        tests[folder] += report.when == "call"
        for name, counts in report.user_properties if report.when == "call" else ():
            if name == "testthat":
                in_r.update(dict(zip(("failed", "warned", "skipped", "passed"), counts, strict=True)))
    if len(seconds) > 1:
        terminalreporter.section("seconds by folder")
        for folder, spent in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{spent:8.1f}  {folder} ({tests[folder]} tests)")
    skipped = terminalreporter.stats.get("skipped", [])
    if late := sum(NO_TIME in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"{late} tests were left out: no time was left on this machine", red=True)
    if in_r:
        terminalreporter.write_line(
            f"testthat: {in_r['passed']} passed, {in_r['failed']} failed, {in_r['skipped']} skipped"
        )
