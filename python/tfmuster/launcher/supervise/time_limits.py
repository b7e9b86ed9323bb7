"""Define the time limits that depend on each other: for the end of a job, and for silent connections.

A job ends from the inside out. An agent ends its worker while the supervisor still waits for the proxy. Proxy
and ssh end while the launcher still waits for them. Agents end while the launcher still waits for the command
or stage that started them. If an inner limit were longer than the outer one, exit codes, output and files of
workers would be lost, or a process would be left. So each limit names the limits that must be longer, and a
test compares them.

Limits that depend on no other are defined where they are used. Two limits are defined in lower layers, which
need them too: the supervisor's (:mod:`tfmuster.system.processes`) and the silence of a connection
(:mod:`tfmuster.net.connections`). They are repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...net.ports import SILENT_SECONDS
from ...system.processes import GRACE_SECONDS


@dataclass(frozen=True)
class TimeLimit:
    """A time limit: what it applies to, what happens after it, and the limits that must be longer."""

    seconds: float
    ends: str
    shorter_than: tuple[TimeLimit, ...] = ()


# Outer limits come first, because a limit can only name limits above it.

SPARK_STAGE = TimeLimit(
    6.0, "Spark's stage of agents. Then it is canceled, and gets the same time once more."
)

AGENT_COMMAND = TimeLimit(4.0, "mpirun or srun, which started the agents. Then it is asked to end (SIGTERM).")
AGENT_COMMAND_ASKED = TimeLimit(3.0, "mpirun or srun after it was asked to end. Then it is killed.")

REMOTE = TimeLimit(5.0, "All proxies of a job, after their input was closed. Then they are killed.")

PROXY = TimeLimit(
    3.0,
    "A proxy whose agent got no worker to run. Then it closes the connection, even if the agent still runs.",
    shorter_than=(REMOTE,),
)
SSH = TimeLimit(
    2.0,
    "ssh, after the agent has closed the connection. Then its proxy kills it.",
    shorter_than=(REMOTE,),
)

SUPERVISOR = TimeLimit(
    GRACE_SECONDS,
    "Each process of a job on this machine, including proxies, after it was asked to end. Then it is killed.",
)

AGENT_WORKER = TimeLimit(
    1.4,
    "A worker on another host and its descendants, after they were asked to end. Then the agent kills them, "
    "and has the rest of the supervisor's time to send exit code, output and files.",
    shorter_than=(SUPERVISOR,),
)
AGENT_LAST_WORDS = TimeLimit(
    1.0,
    "The remaining messages of an agent whose worker has ended. Then the agent exits.",
    shorter_than=(PROXY,),
)
AGENT = TimeLimit(
    AGENT_WORKER.seconds + AGENT_LAST_WORDS.seconds,
    "An agent and its worker after the end of its connection: the sum of both limits.",
    shorter_than=(AGENT_COMMAND, AGENT_COMMAND_ASKED, SPARK_STAGE),
)

SILENT = TimeLimit(
    SILENT_SECONDS,
    "A connection without incoming data. Then either end counts the other as lost: agent and proxy, and the "
    "chief of a rendezvous and its tasks.",
)
DOUBTFUL = TimeLimit(
    3.0,
    "A silent connection whose proxy is asked to end. Then the proxy counts it as lost: when a host is cut "
    "off, its peers fail before the limit for silence has passed.",
    shorter_than=(SILENT,),
)
BEAT = TimeLimit(
    1.0,
    "The time without a message from agent or proxy. Then it sends a heartbeat.",
    shorter_than=(DOUBTFUL, SILENT),
)
