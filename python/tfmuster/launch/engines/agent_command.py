"""One command of an engine that starts all agents: ``mpirun`` and ``srun``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...errors import TfmusterError
from ..remote.gather import AgentRequest
from ..supervise.time_limits import AGENT_COMMAND, AGENT_COMMAND_ASKED

_LAST_SECONDS = 1.0
_MOST_LINES = 4


class AgentCommand:
    """The running command.

    Parameters
    ----------
    command : sequence of str
        Its argument list.
    environ : mapping of str
        Its whole environment.
    call : Call
        What it is to start.
    explain : callable
        Makes an error of what the command has said: all of it, and its first lines as an error shows them.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        call: AgentRequest,
        explain: Callable[[str, str], TfmusterError],
    ) -> None:
        self._explain = explain
        # Some wait for ever for a host that can't be reached: what they have said is the reason then.
        self._patience = time.monotonic() + call.seconds - _LAST_SECONDS
        handle, path = tempfile.mkstemp()
        self._said = Path(path)
        try:
            # Out of reach of the terminal's Ctrl-C: the supervisor ends the workers first.
            self._process = subprocess.Popen(
                command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(handle)

    def startup_error(self) -> TfmusterError | None:
        """What the command says, if it has ended, or the time is over."""
        code = self._process.poll()
        if code is None and time.monotonic() < self._patience:
            return None
        text = self._said.read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip(" -=|\t")]
        if code is None and not lines:
            return None
        return self._explain(
            text, "\n         ".join(lines[:_MOST_LINES]) or f"exit code {code}, and no word"
        )

    def end(self) -> None:
        """Wait for its end, and ask for it if there is none."""
        asked = AGENT_COMMAND_ASKED.seconds
        for ask, seconds in ((None, AGENT_COMMAND.seconds), ("terminate", asked), ("kill", None)):
            if ask:
                getattr(self._process, ask)()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=seconds)
                break
        self._said.unlink()
