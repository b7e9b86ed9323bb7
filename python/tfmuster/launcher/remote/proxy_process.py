"""Start the proxy process of a remote worker, and tell it what to do; see :mod:`.proxy`."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import orjson
import psutil

from ...environment import JOB_VARIABLE
from ...system.interpreter import run_module, with_tfmuster_on_path
from ...system.processes import forget_helper, note_helper
from ...tracking.run import Run
from ...words import FACE_VARIABLE, face
from ..supervise.spares import Waiting
from ..supervise.time_limits import REMOTE
from ..supervise.worker_process import Placement
from .files import Message


@dataclass(frozen=True)
class AgentPlace:
    """The place of one task: its type, and the name of its machine."""

    kind: str
    host: str
    #: Describes the connection for the proxy (:mod:`.proxy`), which gets the socket.
    link: Message
    agent_socket: socket.socket | None = None
    #: Whether the engine has given the agent GPUs that no other agent sees.
    own_gpus: bool = False


@dataclass(eq=False)
class ProxyProcess:
    """The proxy process of one task."""

    host: str
    process: subprocess.Popen[bytes]
    files: Sequence[tuple[str, str]] = field(repr=False)
    #: What was asked of the agent, and the answer once it was read.
    order: Message = field(repr=False)
    answer: Message | None = field(default=None, repr=False)

    @classmethod
    def asked(
        cls, job: str, place: AgentPlace, order: Message, files: Sequence[tuple[str, str]]
    ) -> ProxyProcess:
        """Start a proxy and let it ask the agent. `job` is the name by which the process is found."""
        process = subprocess.Popen(
            run_module("tfmuster.launcher.remote.proxy"),
            env={**with_tfmuster_on_path(os.environ), JOB_VARIABLE: job, FACE_VARIABLE: face()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=[] if place.agent_socket is None else [place.agent_socket.fileno()],
        )
        if place.agent_socket is not None:
            # No other process may hold the socket: when the proxy ends, the agent must end, too.
            place.agent_socket.close()
        remote = cls(place.host, process, files, {**place.link, **order})
        remote._say(remote.order)
        return remote

    def hello(self) -> Message:
        """Return the agent's answer. The proxy enforces the time limit."""
        if self.answer is None:
            self.answer = self._answer()
        return self.answer

    def has_hello(self) -> bool:
        """Return whether `hello` returns at once."""
        assert self.process.stdout is not None
        return self.answer is not None or bool(select.select([self.process.stdout], [], [], 0)[0])

    def was_asked(self, order: Message) -> bool:
        """Return whether the agent's answer is also one to this question, which may be about fewer hosts."""
        known, names = self.order["ask"]["names"], order["ask"]["names"]
        question = {**self.order, "ask": {**self.order["ask"], "names": names}}
        return question == order and names.items() <= known.items()

    def warm(self, job: Message) -> None:
        """Let the agent start a process that waits for a job which is almost like this one."""
        with contextlib.suppress(BrokenPipeError):
            self._say({"warm": job})

    def ask_whether_connected(self) -> None:
        """Ask the proxy whether it still hears from its agent; see `is_connected`."""
        with contextlib.suppress(BrokenPipeError):
            self._say({"check": True})

    def is_connected(self) -> bool:
        """Return its answer."""
        return "fault" not in self.hello() and "fault" not in self._answer()

    def send_run(self, run: Run, files: Sequence[tuple[str, str]]) -> None:
        """Let the proxy send files of the run directory if the host does not share it, and wait for that.

        If the host is lost meanwhile, its worker, which is started next, ends with that error.
        """
        with contextlib.suppress(BrokenPipeError):
            self._say({"continue": {**run_mark(run), "files": files}})
            self._answer()

    def _answer(self) -> Message:
        assert self.process.stdout is not None
        # It has no buffer: the worker's output follows, for another reader.
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            message = "its connection was ended here"
            return {"fault": {"code": "killed", "message": message, "fix": ""}}
        answer: Message = orjson.loads(line)
        return answer

    def start(self, order: Message) -> subprocess.Popen[bytes]:
        """Let the proxy send the files and start the worker, and return the proxy's process."""
        self._say({**order, "files": self.files})
        return self.process

    def close(self) -> None:
        """End the proxy and its ssh, if they have not ended, and close its output."""
        assert self.process.stdout is not None
        with contextlib.suppress(psutil.Error):
            if self.process.poll() is None:
                proxy = psutil.Process(self.process.pid)
                for process in (*proxy.children(recursive=True), proxy):
                    process.kill()
        self.process.wait()
        self.process.stdout.close()

    def _say(self, order: Message) -> None:
        assert self.process.stdin is not None
        view = memoryview(orjson.dumps(order) + b"\n")
        while view:
            view = view[self.process.stdin.write(view) or 0 :]


def run_mark(run: Run) -> Message:
    """Return what tells an agent whether it shares the run directory."""
    info = run.info()
    return {"run_dir": str(run.path), "run_mark": {key: info[key] for key in ("started", "host", "pid")}}


def end_proxies(remotes: Sequence[ProxyProcess]) -> None:
    """Let proxies end by themselves, and end those that do not."""
    for remote in remotes:
        assert remote.process.stdin is not None
        remote.process.stdin.close()
    until = time.monotonic() + REMOTE.seconds
    for remote in remotes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            remote.process.wait(timeout=max(0.0, until - time.monotonic()))
    for remote in remotes:
        remote.close()


class SpareAgents(Waiting):
    """The spare agents of a job.

    An agent has one worker. So while an attempt runs, its hosts get a second agent for each worker, with a
    process that has imported TensorFlow. Those that are still connected at a restart become the agents of the
    new attempt. Hosts without one are connected as usual.
    """

    wanted = False

    def __init__(self) -> None:
        #: The name by which the processes of the next attempt are found, these among them.
        self.name = secrets.token_hex(16)
        self._starts: Sequence[Callable[[str], ProxyProcess]] = ()
        self._waiting: list[ProxyProcess] = []

    def plan(self, starts: Sequence[Callable[[str], ProxyProcess]]) -> None:
        """Say how the agents are started, given the name by which they are found."""
        self._starts = starts

    def prepare(self, placements: Iterable[Placement]) -> None:
        """Start the agents, without waiting for them."""
        if not self.wanted:
            return
        self.close()
        self.name = secrets.token_hex(16)
        self.give_back([start(self.name) for start in self._starts])

    def check(self) -> None:
        """End those that are not connected any more, or not yet."""
        # The host of one without a hello may be cut off. If it is not, a new agent is as fast.
        gone = [remote for remote in self._waiting if not remote.has_hello()]
        for remote in gone:
            remote.close()
        greeted = [remote for remote in self._waiting if remote not in gone]
        for remote in greeted:
            remote.ask_whether_connected()
        gone += [remote for remote in greeted if not remote.is_connected()]
        self._waiting = [remote for remote in greeted if remote not in gone]
        self._end(gone)

    def take_for(self, order: Message) -> ProxyProcess | None:
        """Return the proxy of an agent that was asked the same; None if there is none."""
        for remote in self._waiting:
            if remote.was_asked(order):
                self._waiting.remove(remote)
                forget_helper(remote.process.pid)
                return remote
        return None

    def give_back(self, remotes: Sequence[ProxyProcess]) -> None:
        """Let these wait, from the beginning or because their attempt could not start."""
        for remote in remotes:
            note_helper(remote.process.pid)
        self._waiting += remotes

    def waits_for(self, name: str) -> bool:
        """Return whether some of them have this name."""
        return name == self.name and bool(self._waiting)

    def close(self) -> None:
        """End those that wait."""
        waiting, self._waiting = self._waiting, []
        self._end(waiting)

    def _end(self, remotes: Sequence[ProxyProcess]) -> None:
        end_proxies(remotes)
        for remote in remotes:
            forget_helper(remote.process.pid)
