"""Commands of an engine that start agents: one for all (``mpirun``, ``srun``), or one for each (``qrsh``)."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    call : AgentRequest
        What it is to start.
    explain : callable
        Makes an error of what the command has said: all of it, and its first lines as an error shows them.
    told : str
        What it reads on its standard input. Unlike its arguments, nobody else can see that.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        call: AgentRequest,
        explain: Callable[[str, str], TfmusterError],
        told: str = "",
    ) -> None:
        self._explain = explain
        # Some wait for ever for a host that can't be reached: what they have said is the reason then.
        self._patience = time.monotonic() + call.seconds - _LAST_SECONDS
        handle, path = tempfile.mkstemp()
        self._said = Path(path)
        reading, writing = os.pipe()
        try:
            # Less than a pipe holds, so this does not wait for a reader.
            os.write(writing, told.encode())
            os.close(writing)
            # Out of reach of the terminal's Ctrl-C: the supervisor ends the workers first.
            self._process = subprocess.Popen(
                command,
                env=dict(environ),
                stdin=reading,
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(handle)
            os.close(reading)

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


class CommandPerAgent:
    """A command for each agent that runs a line of shell on a host: ``qrsh -inherit``, ``blaunch``, ``ssh``.

    Parameters
    ----------
    request : AgentRequest
        What is to be started.
    shells : sequence of (sequence of str)
        For each rank the argument list that runs on the rank's host the line of shell that follows.
    python : str
        The hosts' Python that has tfmuster.
    explain : callable
        See :class:`AgentCommand`.
    ignored : sequence of str
        Signals that agents leave to the launcher, such as ``USR2``.
    """

    def __init__(
        self,
        request: AgentRequest,
        shells: Sequence[Sequence[str]],
        python: str,
        explain: Callable[[str, str], TfmusterError],
        ignored: Sequence[str] = (),
    ) -> None:
        self._commands: list[AgentCommand] = []
        # On a command line, and in the files of some engines, everybody could read the values.
        names = list(request.env)
        told = "".join(f"{request.env[name]}\n" for name in names)
        lines = [f"IFS= read -r {name}; export {name}" for name in names]
        if ignored:
            lines.append(f"trap '' {' '.join(ignored)}")
        try:
            for rank, shell in enumerate(shells):
                agent = shlex.join(request.command(python, rank=rank))
                line = "; ".join([*lines, f"cd /; exec {agent} </dev/null"])
                # The user's shell there may be none that POSIX knows.
                command = [*shell, shlex.join(["exec", "/bin/sh", "-c", line])]
                self._commands.append(AgentCommand(command, os.environ, request, explain, told))
        except BaseException:
            self.end()
            raise

    def startup_error(self) -> TfmusterError | None:
        """What the first of the commands says that has ended."""
        return next(filter(None, (command.startup_error() for command in self._commands)), None)

    def end(self) -> None:
        """Wait for the end of all, and ask for it if there is none."""
        with ThreadPoolExecutor(max(1, len(self._commands))) as pool:
            list(pool.map(AgentCommand.end, self._commands))
