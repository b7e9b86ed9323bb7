"""Whether a process runs a worker's program, which ends with its job, or a session, which does not."""

from __future__ import annotations

import sys
import types

import pytest

from tfmuster.environment import JOB_VARIABLE
from tfmuster.rendezvous.task.join import is_worker_process


@pytest.mark.parametrize(("shell", "is_worker"), [(None, True), (object(), False)])
def test_ipython_makes_a_session_only_where_its_shell_runs(
    monkeypatch: pytest.MonkeyPatch, shell: object, is_worker: bool
) -> None:
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.delitem(sys.modules, "rpytools", raising=False)
    monkeypatch.delenv(JOB_VARIABLE, raising=False)
    assert is_worker_process() is is_worker
