"""The far end of a launch over ssh: one worker's process on its host, and nothing of it afterwards.

Started by :mod:`.ssh`, spoken to by :mod:`.stand_in`, over its own input and output (:mod:`.frames`):

1. ``ask`` comes: what is to run, and where. The answer is ``hello``: versions, the clock, a port that is kept
   free, which names of the hosts are known here, and why the program can't run, if so.
2. ``job`` comes: the environment with TF_CONFIG and the job's token. The worker starts, in a session apart.
3. Its process, its output, the files in its run directory, the note of an uncaught exception and its exit
   code go back, and that it is stopped by a signal.

When the input ends or nothing has come for `SILENT_SECONDS`, the worker and all its descendants are ended.
"""

from __future__ import annotations

import base64
import os
import queue
import secrets
import select
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from .. import __version__
from ..errors import LaunchError, TfmusterError
from ..rendezvous import installed_versions
from ..runs import RUN_DIR_VARIABLE, Run
from .files import Arriving, changed_frames, not_kept
from .frames import (
    BEAT_SECONDS,
    FILE,
    JSON,
    MAGIC,
    OUTPUT,
    PIECE,
    SILENT_SECONDS,
    Frames,
    frame,
    message,
    read_message,
)
from .gpus import share_out
from .guard import dismiss_guard, start_guard
from .interpreter import for_worker
from .local import held_ports, resolve_command
from .lookup import known_names
from .processes import JOB_VARIABLE, end_job, stopped_trees

#: Less than a launcher's own patience with its processes, so that all is ended when it has ended.
_GRACE_SECONDS = 1.4
_LAST_WORDS_SECONDS = 1.0
#: Files of the run directory up to this size go back while the worker runs, larger ones when it has ended.
_SMALL = 65_536
#: The working directory of a job whose files are sent along, in the agent's own folder.
_SENT = "work"


class Agent:
    """One worker on this host.

    The input is read by a thread of its own that can always end everything, also when the way back is
    blocked and the main thread with it.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        # Not the launcher's name of the job: another worker of it on this host is not this one's to end.
        self._job = secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="tfmuster-"))
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._starting = threading.Lock()
        self._ending = False
        self._finished = threading.Event()
        self._sent: dict[str, tuple[int, int]] = {}
        self._gpus: dict[str, str] = {}
        #: Why a file that was sent could not be kept.
        self._trouble: OSError | None = None
        #: The worker's process, what of its tree a signal has stopped, and since when: as it was told.
        self._process: tuple[int, int | None, float | None] = (0, None, None)

    def run(self) -> None:
        """Serve one worker from its launcher's question to its end; does not return."""
        try:
            self._serve()
        except Exception:
            # ssh carries it to the launcher.
            traceback.print_exc()
        self._end()

    def _serve(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        self._write(MAGIC)
        ask = self._messages.get()
        with held_ports(1) as (port,):
            command, answer = self._answer(ask)
            self._write(message("hello", port=port, **answer))
            job = self._next()
            guard = start_guard(self._job, self._folder)
            try:
                code = self._work(command, job)
            finally:
                dismiss_guard(guard)
        self._write(message("exit", code=code))

    def _next(self) -> dict[str, Any]:
        """The launcher's next word; files may come before it, and take their time."""
        while True:
            try:
                return self._messages.get(timeout=BEAT_SECONDS)
            except queue.Empty:
                self._write(message("beat"))

    def _answer(self, ask: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The command to execute, and the answer to the launcher's question."""
        answer: dict[str, Any] = {
            "tfmuster": __version__,
            "versions": installed_versions(),
            "time": time.time(),
            "names": known_names(ask["names"], ask["host"]),
            "problem": None,
        }
        try:
            return self._prepare(ask), answer
        except LaunchError as error:
            return (), {**answer, "problem": error.to_dict()}

    def _prepare(self, ask: dict[str, Any]) -> tuple[str, ...]:
        """Enter the directory of the job; the command to execute."""
        first, *arguments = ask["command"]
        if ask["directory"] is None:
            directory = self._folder / _SENT
            directory.mkdir()
        else:
            directory = Path(ask["directory"])
        if script := ask["script"]:
            path = directory / script["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(script["data"]))
            first = str(path)
        try:
            os.chdir(directory)
        except OSError as error:
            raise LaunchError(
                "The working directory must be there.",
                found=f"{directory}: {os.strerror(error.errno or 0).lower()}",
                fix="Make it, share it, or send the script with --copy.",
                reason="directory",
            ) from error
        gpus = ask["gpus"]
        self._gpus = share_out(gpus["kinds"], gpus["per_worker"])[gpus["place"]]
        return resolve_command([first, *arguments])

    def _work(self, command: tuple[str, ...], job: dict[str, Any]) -> int:
        """Run the worker to its end and send all that it leaves; its exit code, negative for a signal."""
        if self._trouble is not None:
            return self._refuse(not_kept(self._trouble))
        run_dir, shared = self._run_dir(job)
        if job["must_share"] and not shared:
            return self._refuse(_not_shared(job["run_dir"]))
        note = self._folder / "error.json"
        environment = for_worker({**os.environ, **self._gpus, **job["env"]})
        environment |= {
            JOB_VARIABLE: self._job,
            RUN_DIR_VARIABLE: str(run_dir),
            "TFMUSTER_ERROR_FILE": str(note),
        }
        with self._starting:
            if self._ending:
                return 1
            try:
                process = _start(command, environment)
            except OSError as error:
                text = f"tfmuster: {command[0]} can't be started: {error.strerror}\n"
                self._write(frame(OUTPUT, text.encode()))
                return 127
        assert process.stdout is not None
        with process.stdout, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            beat = 0.0
            noted = False
            while process.poll() is None:
                self._forward(selector, 0.1)
                if time.monotonic() > beat + BEAT_SECONDS:
                    beat = time.monotonic()
                    self._write(message("beat"))
                    self._send_process(process.pid)
                    noted = noted or self._send_note(note, process.pid)
                    if not shared:
                        self._send_files(run_dir, most=_SMALL)
            end_job(self._job, grace=_GRACE_SECONDS, wait=partial(self._pass, selector))
            while self._forward(selector, 0):
                pass
        if not noted and process.returncode:
            self._send_note(note, None)
        if not shared:
            self._send_files(run_dir)
        return process.returncode

    def _refuse(self, error: TfmusterError) -> int:
        """Send an error as if the worker had shown it; its exit code."""
        text = f"{type(error).__module__}.{type(error).__name__}: {error}"
        note = {"time": time.time(), "pid": os.getpid(), "error": text, "traceback": ""}
        self._write(message("note", note=note))
        return error.exit_code

    def _run_dir(self, job: dict[str, Any]) -> tuple[Path, bool]:
        """The run directory, and whether it is the launcher's own, on a file system that both have."""
        path = Path(job["run_dir"])
        mark = job["run_mark"]
        if {key: Run(path).info().get(key) for key in mark} == mark:
            return path, True
        path = self._folder / "run"
        path.mkdir()
        return path, False

    def _forward(self, selector: selectors.BaseSelector, seconds: float) -> bool:
        """Send what the worker has written, waiting up to `seconds` for it; whether there was any."""
        if not selector.get_map():
            time.sleep(seconds)
            return False
        for key, _ in selector.select(seconds):
            data = os.read(key.fd, PIECE)
            if data:
                self._write(frame(OUTPUT, data))
                return True
            selector.unregister(key.fileobj)
        return False

    def _pass(self, selector: selectors.BaseSelector, seconds: float) -> None:
        """Pass the time with `_forward`."""
        self._forward(selector, seconds)

    def _send_process(self, pid: int) -> None:
        """Tell which process the worker is, and since when which one of its tree is stopped by a signal."""
        stopped = stopped_trees({pid}).get(pid)
        since = None if stopped is None else self._process[2] or time.time()
        if self._process != (pid, stopped, since):
            self._process = (pid, stopped, since)
            self._write(message("process", pid=pid, stopped=stopped, stopped_at=since))

    def _send_note(self, path: Path, pid: int | None) -> bool:
        """Send the note of an uncaught exception, if it is that of process `pid` or of any for None."""
        try:
            note = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return False
        if not isinstance(note, dict) or pid not in (None, note.get("pid")):
            return False
        self._write(message("note", note=note))
        return True

    def _send_files(self, folder: Path, most: float = float("inf")) -> None:
        """Send the files that have changed since, up to a size in bytes."""
        for data in changed_frames(folder, self._sent, most):
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Write all of it; if nobody is left to read it, this is the end."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._outgoing, view) :]
        except OSError:
            self._end()

    def _listen(self) -> None:
        """Read what comes from the launcher, and end everything when nothing does."""
        frames = Frames()
        files = Arriving(self._folder / _SENT, self._folder / "part")
        try:
            while select.select([self._incoming], [], [], SILENT_SECONDS)[0]:
                data = os.read(self._incoming, PIECE)
                if not data:
                    break
                for kind, payload in frames.feed(data):
                    self._hear(kind, payload, files)
        finally:
            self._end()

    def _hear(self, kind: bytes, payload: bytes, files: Arriving) -> None:
        """Keep a file, pass a message on."""
        read = read_message(payload) if kind == JSON else {}
        try:
            if kind == FILE and self._trouble is None:
                files.add(payload)
            elif read.get("type") == "file":
                files.keep(read)
        except OSError as error:
            self._trouble = error
            files.drop()
        if read and read["type"] not in ("beat", "file"):
            self._messages.put(read)

    def _end(self) -> None:
        """End the worker, give its last words a moment, and go."""
        with self._starting:
            self._ending = True
        end_job(self._job, grace=_GRACE_SECONDS)
        if threading.current_thread() is threading.main_thread():
            self._finished.set()
        else:
            self._finished.wait(_LAST_WORDS_SECONDS)
        os.chdir("/")
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(0)


def _not_shared(run_dir: str) -> LaunchError:
    return LaunchError(
        "A job that may be restarted needs a run directory that its chief's host shares.",
        found=f"no {run_dir} of this run on {socket.gethostname()}",
        fix="Choose one on a shared file system with --run-dir, or leave --max-restarts out.",
        reason="not-shared",
    )


def _start(command: tuple[str, ...], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        start_new_session=True,
    )


def main() -> None:
    """Serve over the standard streams; what Python or a library prints must not get between the frames."""
    outgoing = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    Agent(sys.stdin.fileno(), outgoing).run()


if __name__ == "__main__":
    main()
