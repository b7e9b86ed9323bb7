"""What a unit test may do: neither start a process that is not the command line, nor import TensorFlow.

It takes at most a second where nothing else runs; `pytest --durations=20` shows the longest. What breaks
these rules belongs to another folder: keras/ for TensorFlow, jobs/ for processes, fuzz/ for what takes long.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: Seconds: many times what a test may take, as much else may be at work on the machine.
LIMIT = 60
COMMAND_LINE = [sys.executable, "-m", "tfmuster"]
#: numpy.testing asks it for the features of the CPU when it is imported.
ALLOWED = "lscpu"

_started: list[str] = []
#: Whether there are no tests of other folders in this session, which may import TensorFlow.
_alone = pytest.StashKey[bool]()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        given = arguments[1]
        words = [given] if isinstance(given, str | bytes) else list(map(str, given))
        if words[:3] != COMMAND_LINE and words[0] != ALLOWED:
            _started.append(" ".join(map(str, words)))
    elif event in ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"):
        _started.append(event)


# An audit hook stays for the life of the process, so tests of other folders run with it, too.
sys.addaudithook(_note)


def pytest_collection_finish(session: pytest.Session) -> None:
    session.stash[_alone] = all(HERE in item.path.parents for item in session.items)


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _by_the_rules(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _by_the_rules(item)


def _by_the_rules(item: pytest.Item) -> Iterator[None]:
    had_tensorflow = "tensorflow" in sys.modules and not item.session.stash[_alone]
    _started.clear()
    yield
    if _started:
        pytest.fail(
            f"A unit test starts no process but `python -m tfmuster`. It started: {_started}", pytrace=False
        )
    if "tensorflow" in sys.modules and not had_tensorflow:
        item.session.stash[_alone] = False  # said once, not for every test that follows
        pytest.fail("TensorFlow was imported, by this test or by a file of unit/.", pytrace=False)
