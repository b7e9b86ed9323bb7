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

    `explain` makes an error from the command's output: all of it, and its first lines formatted for an error.
    `input` is the text for its standard input, which other users can't see, unlike arguments.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        request: AgentRequest,
        explain: Callable[[str, str], TfmusterError],
        input: str = "",
    ) -> None:
        self._explain = explain
        # Some commands wait without limit for an unreachable host. Their output then has the reason.
        self._patience = time.monotonic() + request.seconds - _LAST_SECONDS
        handle, path = tempfile.mkstemp()
        self._output = Path(path)
        reading, writing = os.pipe()
        try:
            # The text fits into the pipe's buffer, so writing does not wait for a reader.
            os.write(writing, input.encode())
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
        text = self._output.read_text(errors="replace")
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
        self._output.unlink()


class CommandPerAgent:
    """One command per agent that runs a shell line on a host: ``qrsh -inherit``, ``blaunch``.

    `shells` has for each rank the argument list that runs the shell line appended to it on the rank's host.
    The `python` of the hosts has tfmuster. Agents ignore the signals that the launcher handles, such as
    ``USR2``.
    """

    def __init__(
        self,
        request: AgentRequest,
        shells: Sequence[Sequence[str]],
        python: str,
        explain: Callable[[str, str], TfmusterError],
        ignored: Sequence[str],
    ) -> None:
        self._commands: list[AgentCommand] = []
        # Other users could read the values on a command line and in the files of some engines.
        values = "".join(f"{value}\n" for value in request.env.values())
        lines = [f"IFS= read -r {name}; export {name}" for name in request.env]
        if ignored:
            lines.append(f"trap '' {' '.join(ignored)}")
        try:
            for rank, shell in enumerate(shells):
                agent = shlex.join(request.command(python, rank=rank))
                line = "; ".join([*lines, f"cd /; exec {agent} </dev/null"])
                # The user's shell there may not be a POSIX shell.
                command = [*shell, shlex.join(["exec", "/bin/sh", "-c", line])]
                self._commands.append(AgentCommand(command, os.environ, request, explain, values))
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
