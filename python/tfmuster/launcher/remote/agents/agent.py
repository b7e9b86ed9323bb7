"""Run one worker on another machine for a launcher, and leave nothing behind there.

If ssh started the agent, it communicates over its standard input and output. If another engine started it, it
connects to the launcher (:mod:`.call_home`). At the other end is :mod:`.proxy`. They exchange the frames of
:mod:`tfmuster.net.channel`:

1. The launcher sends the script, if needed, and ``ask``: what to run, and where. The agent answers with
   ``hello``: versions, digests of the program's files here and of tfmuster's, the clock, a reserved port, the
   names of the hosts that can be looked up here, its cores and free memory, and why the program can't run, if
   it can't.
2. If the run has files from which its chief continues, the launcher sends ``continue`` to the chief's agent.
   The agent answers with ``shares``: whether it shares the launcher's run directory. If not, the launcher
   sends these files and ``continued``, and the agent answers with ``ready`` when it has them.
   To an agent that waits for a restart, it sends ``warm``: a job like the one to come, for which the agent
   starts a process that imports TensorFlow and waits.
3. The launcher sends ``job``: the environment with TF_CONFIG and the job's token. The agent starts the worker
   in a new session.
4. The agent sends the worker's process ID, output, files in its run directory, uncaught exception and exit
   code, and reports when a signal stops it. The chief's agent also sends what the program has written into
   the folder that it was sent to (:class:`.outgoing.WorkingFolder`), then ``back``, to which the launcher
   answers with ``came``; and ``folder``, where files are that don't come.

When the launcher sends ``end``, or the input ends or is silent for too long (``SILENT`` of
:mod:`..supervise.time_limits`), the agent ends the worker and all its descendants.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import select
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

from .... import __version__
from ....errors import LaunchError
from ....net.addresses import host_key
from ....net.channel import FILE, JSON, Frame, message, read_message
from ....net.ports import held_ports
from ....system.interpreter import r_version
from ....system.processes import adopt_orphans, dismiss_guard, start_guard
from ....system.program_files import package_digest
from ....system.versions import installed_versions
from ...capacity import capacity_for
from ...supervise.time_limits import AGENT_LAST_WORDS, BEAT, SILENT
from ..agent_connection import PREAMBLE, Way, agent_channel
from ..files import RUN, WORK, Arriving, DamagedError, Message, not_kept
from .agent_worker import AgentWorker

#: How long all look-ups of host names may take, in seconds.
_LOOK_UP_SECONDS = 5.0


class Agent:
    """One worker on this host.

    A separate thread reads the input. It can always end everything, even if the output is blocked, and the
    main thread with it. `env` are variables of the worker that must not be sent over the connection.
    """

    def __init__(self, way: Way, env: Mapping[str, str]) -> None:
        self._way = way
        # A new name, not the job's: this agent must not end another worker of the job on this host.
        self._job = secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="tfmuster-"))
        self._messages: queue.Queue[Message] = queue.Queue()
        self._finished = threading.Event()
        self._leaving = threading.Lock()
        #: Why a received file could not be written.
        self._trouble: OSError | None = None
        self._parent = os.getppid()
        #: The launcher's answer that the files have come, with the names of those that it did not keep.
        self._came: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._work = AgentWorker(self._job, self._folder, self._write, self._came.get, env)

    def run(self) -> None:
        """Serve one worker, from the launcher's question to the worker's end. Does not return."""
        adopt_orphans()
        try:
            self._serve()
        except Exception:
            # ssh sends it to the launcher.
            traceback.print_exc()
        self._end()

    def _serve(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        ask = self._messages.get()
        with held_ports(1) as (port,):
            self._write(message("hello", port=port, **self._answer(ask)))
            # From here on, it may wait for long.
            guard = start_guard(self._job, self._folder)
            try:
                while (job := self._next())["type"] != "job":
                    self._obey(job)
                trouble = None if self._trouble is None else not_kept(self._trouble)
                code = self._work.run(job, guard, trouble)
            finally:
                dismiss_guard(guard)
        self._write(message("exit", code=code))

    def _obey(self, order: Message) -> None:
        """Do what the launcher wants before it sends the job."""
        if order["type"] == "warm":
            self._work.warm(order)
        elif order["type"] == "continue":
            self._write(message("shares", shared=self._work.find_run_dir(order)))
        else:
            self._write(message("ready"))

    def _next(self) -> Message:
        """Wait for the launcher's next message. Files may arrive before it, which can take long."""
        while True:
            try:
                return self._messages.get(timeout=BEAT.seconds)
            except queue.Empty:
                self._write(message("beat"))

    def _answer(self, ask: Message) -> Message:
        """Return the answer to the launcher's question."""
        versions = installed_versions()
        # A missing R is reported as a problem of the command.
        if ask["command"][0].lower().endswith(".r") and (version := r_version()):
            versions["r"] = version
        problem = None
        try:
            if self._trouble is not None:
                raise not_kept(self._trouble)
            self._work.prepare(ask)
        except LaunchError as error:
            problem = error.to_dict()
        return {
            "tfmuster": __version__,
            "package": package_digest(),
            "versions": versions,
            "files": {} if problem else self._work.digests(),
            "time": time.time(),
            "names": known_names(ask["names"], ask["host"]),
            "problem": problem,
            "capacity": asdict(capacity_for(ask["script"] or ask["command"][0])),
        }

    def _write(self, frame: Frame) -> None:
        """Write a frame. If the connection is closed, end everything."""
        try:
            self._way.write(frame)
        except OSError:
            self._end()

    def _listen(self) -> None:
        """Read the launcher's messages, and end everything when they stop."""
        files = Arriving(
            self._folder / "part",
            lambda parts: len(parts) > 1 and parts[0] in (WORK, RUN),
            lambda name: self._folder / name,
        )
        silent_from = time.monotonic()
        try:
            # The parent process may have been killed without closing the connection.
            while os.getppid() == self._parent and time.monotonic() < silent_from + SILENT.seconds:
                if not select.select([self._way], [], [], BEAT.seconds)[0]:
                    continue
                if (frames := self._way.read()) is None:
                    break
                silent_from = time.monotonic()
                for kind, payload in frames:
                    self._hear(kind, payload, files)
        finally:
            self._end()

    def _hear(self, kind: bytes, payload: bytes, files: Arriving) -> None:
        """Store a piece of a file, or pass a message on."""
        read = read_message(payload) if kind == JSON else {}
        try:
            if kind == FILE and self._trouble is None:
                files.add(payload)
            elif read.get("type") == "file":
                # The worker would not read such a checkpoint either. The launcher's own stays.
                with contextlib.suppress(DamagedError):
                    files.keep(read)
        except OSError as error:
            self._trouble = error
            files.drop()
        if read and read["type"] == "leave":
            self._work.leave(int(read["signal"]))
        elif read and read["type"] == "came":
            self._came.put(read["refused"])
        elif read and read["type"] == "end":
            # This thread still has to hear whether what is sent now has come.
            threading.Thread(target=self._end, daemon=True).start()
        elif read and read["type"] not in ("beat", "file"):
            self._messages.put(read)

    def _end(self) -> None:
        """End the worker, wait shortly until its last messages are sent, and exit."""
        self._work.end()
        if threading.current_thread() is threading.main_thread():
            self._finished.set()
        else:
            self._finished.wait(AGENT_LAST_WORDS.seconds)
        # Never released: the other thread would end the process while this one still removes files.
        self._leaving.acquire()
        try:
            self._work.keep_files()
            os.chdir("/")
            shutil.rmtree(self._folder, ignore_errors=True)
        finally:
            # The other thread waits for this one.
            os._exit(0)


def known_names(names: Mapping[str, list[str]], own: str) -> dict[str, list[str]]:
    """Return each host's names that this host can look up and that don't lead back to this host."""
    pool = ThreadPoolExecutor(max_workers=16)
    asked = {
        (host, name): pool.submit(_is_known, name, host == own)
        for host, known in names.items()
        for name in known
    }
    answered, _ = wait(asked.values(), timeout=_LOOK_UP_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    return {
        host: [name for name in known if (answer := asked[host, name]) in answered and answer.result()]
        for host, known in names.items()
    }


def _is_known(name: str, itself: bool) -> bool:
    try:
        addresses = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    # Debian gives a machine's own name a loopback address; another host's name must not have one.
    return itself or all(host_key(str(address[4][0])) != "localhost" for address in addresses)


def main() -> None:
    """Serve over the standard streams. Text that Python or a library prints is kept out of the frames."""
    outgoing = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    way = Way(sys.stdin.fileno(), outgoing, agent_channel(caller=False))
    with contextlib.suppress(OSError):
        way.write_raw(PREAMBLE)
    Agent(way, {}).run()


if __name__ == "__main__":
    main()
