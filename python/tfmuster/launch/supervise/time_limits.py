"""The limits of time that depend on each other: how a job's parts end in order, and what silence means.

A job ends from the inside out. An agent ends its worker while the supervisor still waits for the proxy; proxy
and ssh end while the launcher still waits for them; the agents end while the command or the stage that
started them is still waited for. A limit that is longer than the one around it is cut off: exit codes, output
and files of workers are lost, or a process is left. So each limit names those that it must be shorter than,
and a test compares them.

Limits that depend on no other stay where they are used. Two are defined on lower floors, which have to know
them too: the supervisor's patience (:mod:`tfmuster.system.processes`) and the silence of a connection
(:mod:`tfmuster.net.connections`). They stand here with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...net.connections import SILENT_SECONDS
from ...system.processes import GRACE_SECONDS


@dataclass(frozen=True)
class TimeLimit:
    """A limit of time.

    Parameters
    ----------
    seconds : float
        How long it is.
    ends : str
        What ends when it is over, and how.
    shorter_than : tuple of TimeLimit
        The limits that must be longer.
    """

    seconds: float
    ends: str
    shorter_than: tuple[TimeLimit, ...] = ()


# The outer ones come first: a limit can only name what is above it.

SPARK_STAGE = TimeLimit(
    6.0, "Spark's stage of agents. It is canceled then, and gets the same time once more."
)

AGENT_COMMAND = TimeLimit(4.0, "mpirun or srun, which started the agents. It is asked to end (SIGTERM) then.")
AGENT_COMMAND_ASKED = TimeLimit(3.0, "mpirun or srun after it was asked to end. It is killed then.")

REMOTE = TimeLimit(5.0, "All proxies of a job, after their input was closed. They are killed then.")

PROXY = TimeLimit(
    3.0,
    "A proxy whose agent got no worker to run. It hangs up then, whether the agent has ended or not.",
    shorter_than=(REMOTE,),
)
SSH = TimeLimit(
    2.0,
    "ssh, once the agent at its other end has closed the connection. Its proxy kills it then.",
    shorter_than=(REMOTE,),
)

SUPERVISOR = TimeLimit(
    GRACE_SECONDS,
    "Each process of a job on this machine, proxies too, after it was asked to end. It is killed then.",
)

AGENT_WORKER = TimeLimit(
    1.4,
    "A worker on another host and all that it has started, after they were asked to end. The agent kills "
    "them then, and has the rest of the supervisor's time to send exit code, output and files.",
    shorter_than=(SUPERVISOR,),
)
AGENT_LAST_WORDS = TimeLimit(
    1.0,
    "What an agent still has to send when its worker has ended. The agent leaves then.",
    shorter_than=(PROXY,),
)
AGENT = TimeLimit(
    AGENT_WORKER.seconds + AGENT_LAST_WORDS.seconds,
    "An agent with its worker, from the end of its connection on: both limits one after the other.",
    shorter_than=(AGENT_COMMAND, AGENT_COMMAND_ASKED, SPARK_STAGE),
)

SILENT = TimeLimit(
    SILENT_SECONDS,
    "A connection on which nothing has come. Either end counts the other one as lost then: agent and proxy, "
    "and the chief of a rendezvous and its tasks.",
)
DOUBTFUL = TimeLimit(
    3.0,
    "A proxy that is asked to end and has heard nothing. It counts the connection as lost then: a peer of a "
    "host that is cut off fails earlier than anybody can be sure.",
    shorter_than=(SILENT,),
)
BEAT = TimeLimit(
    1.0,
    "The silence of agent and proxy. Each sends a beat then, if there was no other news.",
    shorter_than=(DOUBTFUL, SILENT),
)
