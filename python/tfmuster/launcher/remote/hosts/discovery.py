"""Find the hosts of the moment: a command of the user names them, like Horovod's discovery script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from ....errors import LaunchError
from ....system.ask import NoAnswerError, ask
from ....system.say import say
from ...engines.hosts import Host, parse_discovered

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


class Growth(threading.Thread):
    """Asks for hosts from time to time, until a job that runs could have more workers on some of them.

    Parameters
    ----------
    hosts : callable
        Returns the hosts of the moment. It may raise LaunchError, which is printed.
    every : float
        Seconds between two questions.
    present : mapping
        Number of workers on each host of the attempt that runs.
    most : int
        Number of workers that the job may have.
    reachable : callable
        Whether a host can be asked to take part.
    """

    def __init__(
        self,
        hosts: Callable[[], Sequence[Host]],
        every: float,
        present: dict[str, int],
        most: int,
        reachable: Callable[[Host], bool],
    ) -> None:
        super().__init__(name="tfmuster-growth", daemon=True)
        self._hosts, self._every, self._most, self._reachable = hosts, every, most, reachable
        self._present = present
        self._ended = threading.Event()
        self._found = ""

    def found(self) -> str:
        """Return the names of the hosts with new slots, or nothing."""
        return self._found

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def run(self) -> None:
        """Ask until there are new slots."""
        said = ""
        while not self._found and not self._ended.wait(self._every):
            try:
                hosts = self._hosts()
            except LaunchError as error:
                if said != (said := f"tfmuster: {error.message.rstrip('.')}: {error.found}"):
                    say(said)
                continue
            self._found = ", ".join(host.name for host in self._more(hosts) if self._reachable(host))

    def _more(self, hosts: Sequence[Host]) -> list[Host]:
        """Return the hosts with new slots, unless there are others fewer."""
        listed = {host.name: host.slots for host in hosts}
        if any(listed.get(name, 0) < count for name, count in self._present.items()):
            # A host that is not listed any more still works. Its loss is a failure, if it comes.
            return []
        if sum(self._present.values()) >= self._most:
            return []
        return [host for host in hosts if host.slots > self._present.get(host.name, 0)]


def _unusable(command: str, found: str) -> LaunchError:
    return LaunchError(
        "The hosts of the discovery command can't be used.",
        found=f"{found}; the command: {command}"[:600],
        fix="Let it print a line host:slots for each host, such as node1:2, and exit with 0.",
        reason="hosts-from",
    )
