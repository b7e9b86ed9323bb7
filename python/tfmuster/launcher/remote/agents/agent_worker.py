"""Run a worker's process on its agent's host, and send its output, files and exit code to the launcher."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....cluster.spec import hosts_of
from ....cluster.tf_config import parse_tf_config
from ....environment import ERROR_FILE_VARIABLE, JOB_VARIABLE, RUN_DIR_VARIABLE
from ....errors import LaunchError, TfmusterError
from ....net.channel import OUTPUT, Frame, message
from ....options.hints import Hint
from ....system.gpus import assign_gpus
from ....system.interpreter import python_executable
from ....system.processes import end_job, guard_session, stopped_trees
from ....system.program_files import code_digest, program_files
from ....system.worker_environment import worker_environment
from ....tracking.failure.error_file import note_of
from ....tracking.lifecycle.preemption import order_to_leave
from ....tracking.record.layout import read_json
from ....tracking.run import Run
from ....words import FACE_VARIABLE, Words
from ...command import MODULE, command_of, resolve_command
from ...supervise.spares import Spares, can_wait
from ...supervise.time_limits import AGENT_WORKER, BEAT
from ...supervise.worker_process import Placement, start_process
from ..files import PIECE, RUN, SCRIPTS, WORK, Message
from .outgoing import Outgoing, WorkingFolder


class AgentWorker:
    """One worker, of an agent with its own folder, which it removes.

    `came` is that of `WorkingFolder`. `env` has the variables that are not sent with the worker's job.
    """

    def __init__(
        self,
        job: str,
        folder: Path,
        write: Callable[[Frame], None],
        came: Callable[[], Sequence[str]],
        env: Mapping[str, str],
    ) -> None:
        self._job = job
        self._folder = folder
        self._write = write
        self._came = came
        self._env = env
        self._command: tuple[str, ...] = ()
        self._sent = False
        self._fetch_limit = 0
        self._starting = threading.Lock()
        self._ending = False
        self._gpus: dict[str, str] = {}
        self._run: Path | None = None
        self._shared = False
        self._note = folder / "error.json"
        #: The working folder of a chief whose program was sent.
        self._work: WorkingFolder | None = None
        self._spares = Spares()
        #: What was last sent: the worker's process, its stopped descendant, and the time that was stopped.
        self._process: tuple[int, int | None, float | None] = (0, None, None)

    def prepare(self, ask: Message) -> None:
        """Change to the job's directory, and find the program."""
        os.environ[FACE_VARIABLE] = str(ask.get("face"))
        first, *arguments = ask["command"]
        self._fetch_limit = ask["fetch_limit"]
        if ask["directory"] is None:
            self._sent = True
            directory = self._folder / WORK
            directory.mkdir(exist_ok=True)
        else:
            directory = Path(ask["directory"])
        if ask["script"] is not None:
            first = str(directory / ask["script"])
        try:
            os.chdir(directory)
        except OSError as error:
            raise LaunchError(
                "The working directory must exist on the host.",
                found=f"{directory}: {os.strerror(error.errno or 0).lower()}",
                fix=Words("Create it, share it, or send the script with {}.", Hint("copy", True)),
                reason="directory",
            ) from error
        gpus = ask["gpus"]
        self._gpus = assign_gpus(gpus["kinds"], gpus["per_worker"])[gpus["place"]]
        self._command = resolve_command([first, *arguments], python=python_executable())

    def digests(self) -> dict[str, str]:
        """Return a digest of each file of the program that is this machine's own: none if they were sent."""
        interpreter, *words = self._command
        script = (
            words[1].replace(".", "/") + ".py" if words[:1] == [MODULE] else next(iter(words), interpreter)
        )
        if self._sent or not script.lower().endswith(SCRIPTS):
            return {}
        return {name: code_digest(path) for name, path in program_files(Path(script)).items()}

    def run(self, job: Message, guard: subprocess.Popen[bytes], trouble: TfmusterError | None) -> int:
        """Run the worker to its end and send its results. Return its exit code, negative for a signal.

        `job` is the launcher's message, and `trouble` is why the worker can't run.
        """
        if trouble is not None:
            # As if the worker had raised it.
            self._write(message("note", note=note_of(trouble)))
            return trouble.exit_code
        self.find_run_dir(job)
        run_dir = self._run
        assert run_dir is not None
        files = None if self._shared else Outgoing(run_dir, self._write)
        placement = self._placement(job)
        if placement.is_chief:
            self._say_where_files_are()
        try:
            with self._starting:
                if self._ending:
                    return 1
                process = self._spares.take(placement) or start_process(placement)
                guard_session(guard, self._job, process.pid)
        except OSError as error:
            self._write(message("say", text=f"{self._command[0]} can't be started: {error.strerror}"))
            return 127
        assert process.stdout is not None
        with process.stdout, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            beat = 0.0
            noted = more = False
            while process.poll() is None:
                self._forward(selector, 0 if more else 0.1)
                more = files is not None and files.turn()
                if time.monotonic() > beat + BEAT.seconds:
                    beat = time.monotonic()
                    self._write(message("beat"))
                    self._send_process(process.pid)
                    noted = noted or self._send_note(process.pid)
                    if files is not None:
                        files.look()

            def wait(seconds: float) -> None:
                self._forward(selector, seconds)

            end_job(self._job, grace=AGENT_WORKER.seconds, wait=wait)
            while self._forward(selector, 0):
                pass
        if not noted and process.returncode:
            self._send_note(None)
        if files is not None:
            files.rest()
        if self._work is not None:
            self._work.bring_back()
        return process.returncode

    def _say_where_files_are(self) -> None:
        """Tell the launcher where files are that the chief's program writes, and that don't come back."""
        if self._sent:
            self._work = WorkingFolder(self._folder / WORK, self._fetch_limit, self._write, self._came)
            self._write(message("folder", path=str(self._work.kept), own=True))
        elif not self._shared:
            self._write(message("folder", path=os.getcwd(), own=False))

    def find_run_dir(self, job: Message) -> bool:
        """Find the worker's run directory. Return whether it is the launcher's, on a shared file system."""
        path = Path(job["run_dir"])
        mark = job["run_mark"]
        self._shared = {key: Run(path).info().get(key) for key in mark} == mark
        self._run = path if self._shared else self._folder / RUN
        self._run.mkdir(exist_ok=True)
        return self._shared

    def warm(self, job: Message) -> None:
        """Start a process that waits to become the worker of a job like this one."""
        self._run = self._folder / RUN
        placement = self._placement(job)
        with self._starting:
            if not self._ending and can_wait(placement.command):
                self._spares.prepare([placement])

    def _placement(self, job: Message) -> Placement:
        """Return the process of a job in the run directory that was found."""
        variables = {**os.environ, **self._gpus, **job["env"], **self._env}
        task = parse_tf_config(variables["TF_CONFIG"])
        environment = worker_environment(variables, hosts_of(task.cluster))
        environment |= {
            JOB_VARIABLE: self._job,
            RUN_DIR_VARIABLE: str(self._run),
            ERROR_FILE_VARIABLE: str(self._note),
        }
        return Placement(task.name, task.is_chief, command_of(self._command, task), environment)

    def leave(self, signal: int) -> None:
        """Tell the worker to save and leave."""
        if self._run is not None:
            with contextlib.suppress(OSError):
                order_to_leave(self._run, signal)

    def end(self) -> None:
        """End the worker, and start none afterward."""
        with self._starting:
            self._ending = True
        self._spares.close()
        end_job(self._job, grace=AGENT_WORKER.seconds)

    def keep_files(self) -> None:
        """Keep what a chief's program has written into its working folder, and has not come back."""
        if self._work is not None:
            self._work.keep()

    def _forward(self, selector: selectors.BaseSelector, seconds: float) -> bool:
        """Wait up to `seconds` for the worker's output, and send it. Return whether there was any."""
        if not selector.get_map():
            time.sleep(seconds)
            return False
        for key, _ in selector.select(seconds):
            data = os.read(key.fd, PIECE)
            if data:
                self._write(Frame(OUTPUT, data))
                return True
            selector.unregister(key.fileobj)
        return False

    def _send_process(self, pid: int) -> None:
        """Send the worker's process ID and, if a signal has stopped one of its processes, which and when."""
        stopped = stopped_trees({pid}).get(pid)
        since = None if stopped is None else self._process[2] or time.time()
        if self._process != (pid, stopped, since):
            self._process = (pid, stopped, since)
            self._write(message("process", pid=pid, stopped=stopped, stopped_at=since))

    def _send_note(self, pid: int | None) -> bool:
        """Send the note of an uncaught exception, if it is from process `pid`; None accepts any process."""
        note = read_json(self._note)
        if not note or pid not in (None, note.get("pid")):
            return False
        self._write(message("note", note=note))
        return True
