"""Start agents with the commands of an engine: one for all (``mpirun``, ``srun``) or one each (``qrsh``)."""

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
from ..remote.engine_agents import AgentRequest
from ..supervise.time_limits import AGENT_COMMAND, AGENT_COMMAND_ASKED

_LAST_SECONDS = 1.0
_MOST_LINES = 4


class AgentCommand:
    """A running command that starts all agents.

    Parameters
    ----------
    command : sequence of str
        Its argument list.
    environ : mapping of str
        Its complete environment.
    call : AgentRequest
        The agents to start.
    explain : callable
        Makes an error from the command's output: all of it, and its first lines formatted for an error.
    told : str
        Text for its standard input. Unlike arguments, other users can't see it.
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
        # Some commands wait without limit for an unreachable host. Their output then has the reason.
        self._patience = time.monotonic() + call.seconds - _LAST_SECONDS
        handle, path = tempfile.mkstemp()
        self._said = Path(path)
        reading, writing = os.pipe()
        try:
            # The text fits into the pipe's buffer, so writing does not wait for a reader.
            os.write(writing, told.encode())
            os.close(writing)
            # A new session shields it from the terminal's Ctrl-C: the supervisor ends the workers first.
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
        """Return the error of a command that has ended or exceeded its time limit; otherwise None."""
        code = self._process.poll()
        if code is None and time.monotonic() < self._patience:
            return None
        text = self._said.read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip(" -=|\t")]
        if code is None and not lines:
            return None
        return self._explain(
            text, "\n         ".join(lines[:_MOST_LINES]) or f"exit code {code} without output"
        )

    def end(self) -> None:
        """Wait for the command to end, and end it after a time limit."""
        asked = AGENT_COMMAND_ASKED.seconds
        for ask, seconds in ((None, AGENT_COMMAND.seconds), ("terminate", asked), ("kill", None)):
            if ask:
                getattr(self._process, ask)()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=seconds)
                break
        self._said.unlink()


class CommandPerAgent:
    """One command per agent that runs a shell line on a host: ``qrsh -inherit``, ``blaunch``, ``ssh``.

    Parameters
    ----------
    request : AgentRequest
        The agents to start.
    shells : sequence of (sequence of str)
        For each rank, the argument list that runs the shell line appended to it on the rank's host.
    python : str
        Path of a Python on the hosts that has tfmuster.
    explain : callable
        See :class:`AgentCommand`.
    ignored : sequence of str
        Signals that agents ignore because the launcher handles them, such as ``USR2``.
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
        # Other users could read the values on a command line and in the files of some engines.
        names = list(request.env)
        told = "".join(f"{request.env[name]}\n" for name in names)
        lines = [f"IFS= read -r {name}; export {name}" for name in names]
        if ignored:
            lines.append(f"trap '' {' '.join(ignored)}")
        try:
            for rank, shell in enumerate(shells):
                agent = shlex.join(request.command(python, rank=rank))
                line = "; ".join([*lines, f"cd /; exec {agent} </dev/null"])
                # The user's shell there may not be a POSIX shell.
                command = [*shell, shlex.join(["exec", "/bin/sh", "-c", line])]
                self._commands.append(AgentCommand(command, os.environ, request, explain, told))
        except BaseException:
            self.end()
            raise

    def startup_error(self) -> TfmusterError | None:
        """Return the error of the first command that has ended; None if all run."""
        return next(filter(None, (command.startup_error() for command in self._commands)), None)

    def end(self) -> None:
        """Wait for all commands to end, and end them after a time limit."""
        with ThreadPoolExecutor(max(1, len(self._commands))) as pool:
            list(pool.map(AgentCommand.end, self._commands))
