"""Ask a command of the user which hosts there are, like Horovod's discovery script."""

from __future__ import annotations

from typing import Final

from ...errors import LaunchError
from ...system.ask import NoAnswerError, ask
from ..engines.hosts import Host, parse_discovered

#: How long the command may take, in seconds.
_ANSWER_SECONDS: Final = 30.0


class Discovery:
    """Asks a command for hosts.

    Parameters
    ----------
    command : str
        A shell command that prints a line ``host:slots`` for each host.
    """

    def __init__(self, command: str) -> None:
        self._command = command

    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts of this moment, of which there may be none.

        Raises
        ------
        LaunchError
            The command fails, takes too long, or prints something else (reason ``hosts-from``).
        """
        try:
            answer = ask("sh", "-c", self._command, seconds=_ANSWER_SECONDS)
        except NoAnswerError as error:
            raise _unusable(self._command, str(error)) from error
        if answer.code:
            said = (answer.errors.strip() or answer.output.strip() or "no output").splitlines()[-1]
            raise _unusable(self._command, f"exit code {answer.code}: {said[:200]}")
        try:
            return parse_discovered(answer.output.splitlines())
        except LaunchError as error:
            raise _unusable(self._command, error.found or "nothing") from error


def _unusable(command: str, found: str) -> LaunchError:
    return LaunchError(
        "The hosts of the discovery command can't be used.",
        found=f"{found}; the command: {command}"[:600],
        fix="Let it print a line host:slots for each host, such as node1:2, and exit with 0.",
        reason="hosts-from",
    )
