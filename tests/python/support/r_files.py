"""R's tests under pytest: a file of testthat is one test, with its failures as testthat prints them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

#: Of the slowest file, beside others on a busy machine.
_LIMIT = 900
_COUNTS = re.compile(r"\[ FAIL (\d+) \| WARN (\d+) \| SKIP (\d+) \| PASS (\d+) \]")


class RFile(pytest.File):
    """A file of tests/testthat."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the file as one test."""
        item = RTests.from_parent(self, name="testthat")
        item.add_marker(pytest.mark.timeout(_LIMIT + 60))
        yield item


class RTests(pytest.Item):
    """All tests of the file, in an R of its own."""

    def runtest(self) -> None:
        """Run the file with the installed package; fail with what testthat says, and skip without R."""
        if shutil.which("Rscript") is None:
            pytest.skip("R is missing")
        code = (
            f"testthat::test_file('testthat/{self.path.name}', package = 'tfmuster', "
            "load_package = 'installed', reporter = 'check', stop_on_failure = TRUE)"
        )
        done = subprocess.run(
            ["Rscript", "-e", code],
            cwd=self.path.parents[1],
            env={**os.environ, "CI": "true", "NOT_CRAN": "true", "TESTTHAT_PARALLEL": "false"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_LIMIT,
            check=False,
        )
        counts = _COUNTS.findall(done.stdout)
        if done.returncode or not counts:
            raise RError(done.stdout[-20_000:])
        self.user_properties.append(("testthat", tuple(map(int, counts[-1]))))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:  # type: ignore[override]
        """Show testthat's text alone."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Name the file."""
        return self.path, 0, self.path.name


class RError(Exception):
    """Tests of an R file have failed; the text is testthat's."""
