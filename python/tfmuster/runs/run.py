"""The run directory: what a run leaves, written and read in this one place.

``runs/<UTC time>-<name>/`` holds

``run.json``       what was started, where, by which versions, from which commit
``status.json``    the state of the run and of each task, replaced atomically
``logs/``          the whole output of each task, ``worker-0.log``
``states/``        what each task is doing, ``worker-0.json``, see :mod:`.states`
``metrics.jsonl``  one line per epoch, from the chief
``model.keras``    the model, if the program saved it there
``call/``          of a function: what is called, and what each worker has returned
``stop.json``      of a batch job: the command that ends it
``stop``           there while somebody asks a launcher to end the run that no signal may end
``error.json``     the first failure, after restarts of the last attempt: when, host, task, exit code or
                   signal, traceback

It is the one interface between a run and whoever watches it, so that a run can be started in one session and
looked at from another.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..environment import RUN_DIR_VARIABLE
from ..errors import LaunchError, TfmusterError
from ..system.ask import NoAnswerError, ask
from .layout import CALL, STOP_COMMAND, UNFINISHED, read_json, task_of, utc_now, write_json
from .metrics import NO_METRICS, read_metrics
from .tfruns import write_tfruns
from .values import Values, values_of

#: How long a batch system may take to accept that a job is to end, seconds.
_ANSWER_SECONDS = 30.0
#: How long it may take to end the job's processes, and how long a shared file system may take to show what a
#: node has written, seconds.
_BATCH_SECONDS, _SHARED_SECONDS = 60.0, 5.0


class Run:
    """One run, by its directory. Every method reads what is there now; nothing is kept in memory.

    Parameters
    ----------
    path : path
        The run directory, absolute or relative to the working directory.
    """

    __module__ = "tfmuster"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def __repr__(self) -> str:
        return f"<Run {self.path.name}: {self.status()['state']}>"

    @property
    def name(self) -> str:
        """The directory's own name, as ``tfmuster runs show`` takes it."""
        return self.path.name

    @property
    def model_path(self) -> Path:
        """Where the program's model belongs."""
        return self.path / "model.keras"

    def info(self) -> dict[str, Any]:
        """What was started: command, cluster, host, versions, git state."""
        return read_json(self.path / "run.json")

    def status(self) -> dict[str, Any]:
        """``state`` of the run and ``tasks``, each with its own ``state``, ``host``, ``pid``, ``exit_code``.

        ``pid`` is the process on that host, None until the host has told it. A running task that says what it
        is doing has that too: ``doing`` in words, and ``progress`` as a dict with ``phase``, and, where they
        are known, ``epoch``, ``epochs``, ``step``, ``steps``, ``metrics``, ``steps_per_second``,
        ``images_per_second`` and ``waiting``; see :class:`~tfmuster.runs.states.State`.

        The states of a run are starting, running, restarting, done, failed, interrupted, and lost: the
        launcher was on this machine, and has left no word. ``restarts`` counts new starts of all tasks.
        """
        status = {"state": "starting", "restarts": 0, "tasks": {}, **read_json(self.path / "status.json")}
        info = self.info()
        here = info.get("host", socket.gethostname()) == socket.gethostname()
        if status["state"] in UNFINISHED and here and _launcher(info) is None:
            # It may have ended between the two looks.
            status.update(read_json(self.path / "status.json"))
            if status["state"] in UNFINISHED:
                status["state"] = "lost"
        if status["state"] == "running":
            from .states import read_states

            for task, said in read_states(self.path).items():
                if status["tasks"].get(task, {}).get("state") == "running":
                    status["tasks"][task] |= {"doing": said.text, "progress": said.to_dict()}
        return status

    def error(self) -> dict[str, Any] | None:
        """The first failure, or None."""
        return read_json(self.path / "error.json") or None

    def log_paths(self) -> dict[str, Path]:
        """The log of each task, by the task's name, such as ``worker 0``."""
        paths = sorted((self.path / "logs").glob("*-*.log"), key=_task_order)
        return {task_of(path.stem): path for path in paths}

    def logs(self, task: str | None = None, *, lines: int | None = None) -> dict[str, str]:
        """The output of every task, or of one, by the task's name.

        Parameters
        ----------
        task : str, optional
            Such as ``"worker 0"``.
        lines : int, optional
            Only so many last lines.
        """
        paths = self.log_paths()
        if task is not None and task not in paths:
            raise TfmusterError(
                f"The run {self.name} has no task {task!r}.",
                found=", ".join(paths) or "no logs",
                fix="Name one of these.",
                run=self.name,
            )
        texts = {name: _text(path) for name, path in paths.items() if task in (None, name)}
        if lines is None:
            return texts
        return {name: "".join(text.splitlines(keepends=True)[-lines:]) for name, text in texts.items()}

    def history(self) -> dict[str, list[float]]:
        """The metrics of each epoch, by name, as Keras's ``History.history``.

        Of an epoch that was repeated after a restart, the last.
        """
        history: dict[str, list[float]] = {}
        for values in read_metrics(self.path):
            for metric, value in values.items():
                if metric not in NO_METRICS:
                    history.setdefault(metric, []).append(value)
        return history

    def model(self) -> Any:
        """The model that the run saved as ``model.keras``, loaded in Keras's safe mode."""
        if not self.model_path.exists():
            raise TfmusterError(
                f"The run {self.name} has no model.",
                found=f"no {self.model_path}; the run is {self.status()['state']}",
                fix=f"Let the program save it there: its folder is in {RUN_DIR_VARIABLE}.",
                run=self.name,
            )
        from ..keras_compat.saving import model_from_bytes

        return model_from_bytes(self.model_path.read_bytes())

    def values(self) -> Values:
        """What each worker of ``launch(function)`` has returned, when the run has ended well.

        Raises
        ------
        WorkerError
            A worker has failed.
        """
        self.wait()
        self.check()
        return Values(values_of(self.path, self.log_paths()), self)

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """The status once the run has ended, or after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while (status := self.status())["state"] in UNFINISHED:
            if end is not None and time.monotonic() > end:
                break
            time.sleep(0.1)
        return status

    def check(self) -> None:
        """Raise the first failure, if the run has failed.

        Raises
        ------
        WorkerError
            As :func:`tfmuster.launch` would have raised it.
        TfmusterError
            It was interrupted, or its launcher is gone.
        """
        state = self.status()["state"]
        if (error := self.error()) and state == "failed":
            from .failure import Failure

            raise Failure.from_dict(error).to_error()
        if state not in ("done", *UNFINISHED):
            raise TfmusterError(f"The run {self.name} did not come to its end.", found=state, run=self.name)

    def stop(self, timeout: float = 10.0) -> dict[str, Any]:
        """End the run and all its processes, from any session of its machine or batch system; the status.

        A run that has ended stays as it is. The session that waits for the run goes on, with an error.
        """
        if not self.goes_on:
            return self.status()
        info = self.info()
        launcher = _launcher(info)
        if launcher is None:
            host = info.get("host")
            if host != socket.gethostname():
                if not self._stop_command:
                    message = f"The run {self.name} can be stopped on its own host only."
                    raise LaunchError(message, found=f"host {host}", run=self.name)
                self._end_batch_job()
            return self.status()
        if info.get("ends_on_sigterm"):
            with contextlib.suppress(Exception):
                launcher.terminate()
        else:
            self._stop_path.touch()
        return self.wait(timeout)

    def set_stop_command(self, command: Sequence[str]) -> None:
        """Note the command that ends this run's batch job. Whoever submits it does, and the job itself."""
        write_json(self.path / STOP_COMMAND, {"command": list(command)})

    @property
    def _stop_command(self) -> list[str]:
        return list(map(str, read_json(self.path / STOP_COMMAND).get("command", ())))

    def _end_batch_job(self) -> None:
        command = self._stop_command
        has_begun = (self.path / "logs").is_dir()
        try:
            answer = ask(*command, seconds=_ANSWER_SECONDS)
        except NoAnswerError as error:
            found: str | None = str(error)
        else:
            found = None if answer.code == 0 else answer.first_line
        # A job that has not begun has nobody who would write how it ends.
        state = self.wait(_BATCH_SECONDS if has_begun and not found else _SHARED_SECONDS)["state"]
        if state not in UNFINISHED:
            return
        if found:
            raise LaunchError(
                f"The batch job of the run {self.name} must be ended by its batch system.",
                found=found,
                fix=f"Run this on a machine of the cluster: {shlex.join(command)}",
                run=self.name,
            )
        self.end("interrupted")

    @property
    def _stop_path(self) -> Path:
        return self.path / "stop"

    def check_stopped(self) -> None:
        """Raise TfmusterError if somebody has asked to end this run. Only its launcher does."""
        if self._stop_path.exists():
            self._stop_path.unlink(missing_ok=True)
            raise TfmusterError(
                f"The run {self.name} was stopped.", found="asked for by another session", run=self.name
            )

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended yet."""
        return self.status()["state"] in UNFINISHED

    def end(self, state: str, error: Mapping[str, Any] | None = None, **changes: Any) -> None:
        """Note how the run has ended. Only its launcher does, or whoever finds that it has none any more.

        Parameters
        ----------
        state : str
            The state in which it stays.
        error : mapping, optional
            The first failure, for ``error.json``.
        **changes
            More entries of ``status.json``.
        """
        if error is not None:
            write_json(self.path / "error.json", error)
        write_tfruns(
            self.path / "tfruns.d", state=state, info=self.info(), history=self.history(), error=self.error()
        )
        if state == "done":
            # What a function was given may be large and private; its values stay.
            for path in (self.path / CALL).glob("call.*"):
                path.unlink(missing_ok=True)
        # The state is the last thing that is written: whoever waits for it finds all the rest.
        self.set_status(state=state, **changes)

    def set_status(self, **changes: Any) -> None:
        """Change entries of ``status.json``. Only the run's launcher does."""
        status = {**read_json(self.path / "status.json"), **changes, "updated": utc_now()}
        write_json(self.path / "status.json", status)


def _launcher(info: Mapping[str, Any]) -> Any:
    """The launcher's process, or None if it has ended or runs on another machine."""
    import psutil

    if info.get("host") != socket.gethostname():
        return None
    with contextlib.suppress(psutil.Error, KeyError):
        process = psutil.Process(info["pid"])
        # The number may have gone to another process since.
        if abs(process.create_time() - info["pid_started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _task_order(path: Path) -> tuple[str, int]:
    job, _, index = path.stem.rpartition("-")
    return job, int(index) if index.isdigit() else 0
