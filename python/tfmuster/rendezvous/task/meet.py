"""Wait until all tasks are present, reachable and alike in cluster and versions, or fail with the cause.

Every task calls :func:`muster` before TensorFlow waits for other tasks. The chief (otherwise worker 0)
listens on its own address, the only port that is known to be open. The others report to it and try to reach
each other. Then all close their listeners, so that TensorFlow can bind the ports, and continue. The
connection stays open as the control channel (:class:`.control_channel.ControlChannel`).
docs/concepts/rendezvous.md describes the protocol.

Environment: ``TFMUSTER_START_TIMEOUT`` (seconds), ``TFMUSTER_TOKEN`` (the job's secret),
``TFMUSTER_RENDEZVOUS=0`` (skip the rendezvous).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from ...cluster.spec import Task
from ...environment import RENDEZVOUS_VARIABLE, job_token, start_timeout
from ...errors import RendezvousError
from ...net.addresses import split_address
from ...net.channel import Message
from ...net.ports import listen_patiently, port_problem
from ...system.say import say
from ...system.versions import installed_versions
from ..chief.server import RendezvousServer, Terms
from ..failures import failure_text
from ..links import Links
from .client import RendezvousClient
from .control_channel import ControlChannel
from .token_file import token_of_file

#: How long to retry a port that is taken, in seconds, because a process of an earlier job may be ending.
_PORT_SECONDS = 3.0

Progress = Callable[[Message], None]


def muster(
    task: Task,
    *,
    timeout: float | None = None,
    token: str | None = None,
    versions: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
    link: bool = False,
) -> ControlChannel:
    """Wait until all tasks of the cluster are present and agree. A second call returns the same channel.

    ``timeout`` is in seconds, by default ``TFMUSTER_START_TIMEOUT``, else 60; the shortest of all tasks
    counts. ``token`` is the job's secret: by default ``TFMUSTER_TOKEN``, else that of :mod:`.token_file`,
    else none. ``versions`` must be equal on every task (default: :func:`installed_versions`). ``link``
    connects to all other training tasks that do so too (:mod:`.links`). With ``TFMUSTER_RENDEZVOUS=0`` the
    channel has no connection.

    ``on_progress`` is called in this thread, after about one second of waiting, with ``text`` (one line) and
    ``waiting`` (names of tasks). Until the chief is reached, there are also its ``address`` and a ``reason``;
    afterwards ``arrived`` and ``expected`` (numbers of tasks). By default, the text goes to stderr.

    Raises the same RendezvousError on every task if one did not arrive in time, has another cluster or other
    versions, or can't reach another task.
    """
    current = ControlChannel.current()
    if current is not None and current.active and current.task == task:
        return current
    control = ControlChannel(task)
    if os.environ.get(RENDEZVOUS_VARIABLE) != "0":
        limit = start_timeout(timeout)
        versions = dict(installed_versions() if versions is None else versions)
        token = job_token(token) or token_of_file()
        terms = Terms(token, versions, deadline=time.monotonic() + limit, limit=limit)
        _meet(control, terms, on_progress or print_progress, link=link)
    ControlChannel.make_current(control)
    return control


def print_progress(progress: Message) -> None:
    """Print to stderr which tasks this task waits for."""
    say(f"tfmuster: {progress['text']}")


def _meet(control: ControlChannel, terms: Terms, on_progress: Progress, *, link: bool) -> None:
    task = control.task
    links = Links(task)
    port = split_address(task.address)[1]
    chief: RendezvousServer | None = None
    listener = trouble = None
    if task.type != "evaluator":
        try:
            listener = listen_patiently(port, min(_PORT_SECONDS, terms.limit / 2))
        except OSError as error:
            trouble = port_problem(port, error)
    if task.is_chief and listener is not None:
        chief = RendezvousServer(task, listener, terms, links)
        chief.start()
        listener = None
    client = RendezvousClient(
        task,
        terms,
        listener=listener,
        port_trouble=trouble,
        chief=chief,
        links=links,
        link=link,
        on_progress=on_progress,
    )
    try:
        go = client.run()
    except BaseException as error:
        client.connections.close()
        links.close()
        if client.chief is not None:
            # Tell the tasks that are present before this process, and with it the connection, ends.
            known = isinstance(error, RendezvousError)
            client.chief.abandon(None if known else f"{type(error).__name__} {error}".strip())
        raise
    control.seed, control.peers, control.direct = go["seed"], go["peers"], go["direct"]
    if not go["linked"]:
        links.close()
    elif (group := links.open()) is not None:
        # Called last, when the stacks of a task that waits for a sum are written.
        control.on_failure(lambda failure: group.abort(failure_text(failure)))
    told = None if client.chief is None else client.chief.told
    control.start(client.connections, client.connection_to_chief(), client.chief, told, go["chief"])
