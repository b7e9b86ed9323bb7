"""What is said when a run of pytest ends early: which tests were running, and for how long."""

from __future__ import annotations

import time

import pytest


class Running:
    """Follows the tests of all processes of pytest, and names those that an interrupt has ended."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begun[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._begun.pop(nodeid, None)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write a line for each, the longest first."""
        for nodeid, begun in self._begun.items():
            terminalreporter.write_line(f"RUNNING for {time.monotonic() - begun:.0f} s: {nodeid}", red=True)
