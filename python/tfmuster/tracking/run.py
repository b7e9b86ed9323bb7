"""Read and write the run directory, which keeps everything that a run produces.
``runs/<UTC time>-<name>/`` holds

``run.json``       the command, the host, the versions of all software, and the git commit
``status.json``    the state of the run and of each task, replaced atomically
``logs/``          the full output of each task, ``worker-0.log``
``states/``        the state of each task, ``worker-0.json``, see :mod:`.states`
``stacks/``        the stacks of each task, if the job has stalled or someone has asked for them
``metrics.jsonl``  one line per epoch, from the chief
``notes.jsonl``    what was decided for the program while it ran, one line each
``model.keras``    the model, if the program saved it there
``tensorboard/``   what the chief has written for TensorBoard
``call/``          for a function: the function, and the value that each worker returned, see :mod:`.values`
``resume.json``    what starts the run again, until its program has finished
``stop.json``      for a batch job: the command that ends it
``arrived.jsonl``  the names of the files that other machines have sent
``stop``           exists while a session asks the launcher to end the run
``error.json``     the first failure (of the last attempt): time, host, task, exit code or signal, traceback

All access to a run goes through its directory. So you can start a run in one session and watch it from
another.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TfmusterError
from ..words import Code, Value, Words
from .lifecycle.removing import remove_files
from .lifecycle.resuming import resume_run
from .lifecycle.stopping import stop_run, stop_text
from .live.stacks import ask_for_stacks
from .live.status import status_of, wait_for_end
from .record.history import read_history
from .record.layout import MODEL, UNFINISHED
from .record.lines import read_notes
from .record.log_text import last_lines, log_paths, whole_text
from .record.recording import read_error, read_info

if TYPE_CHECKING:
    from .values import Values


class Run:
    """One run, given by its directory. Every method reads the current files; nothing is cached.

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
        """Name of the directory, which ``tfmuster runs show`` accepts."""
        return self.path.name

    @property
    def model_path(self) -> Path:
        """Path to which the program should save its model."""
        return self.path / MODEL

    def info(self) -> dict[str, Any]:
        """Return what was started: command, cluster, host, versions, git state."""
        return read_info(self.path)

    def notes(self) -> list[dict[str, Any]]:
        """Return what was decided for the program: ``time``, ``about`` (such as ``input``), ``text``."""
        return read_notes(self.path)

    def status(self) -> dict[str, Any]:
        """Return the run's ``state`` and ``tasks``, each with ``state``, ``host``, ``pid`` and ``exit_code``.

        ``pid`` is the process on that host, None until the host reports it. A running task of the launcher's
        own host also has ``birth``, which tells the process from later ones with this number. One that
        reports its state also has ``doing``, a text, and ``progress``. ``progress`` is a dict with ``phase``
        and, if known, the fields of :class:`.states.State`: ``epoch``, ``steps_per_second``,
        ``metrics``, ``wait_share`` and others.

        The states of a run are starting, running, restarting, done, failed, interrupted, preempted (a
        checkpoint was written because of a shutdown signal) and lost. A run is lost if its launcher ended
        without a report. A launcher of another machine, or of another user, counts as ended if it has written
        nothing for five minutes, or for an hour while it starts the workers. ``restarts`` is the number of
        restarts.
        """
        return status_of(self.path)

    def error(self) -> dict[str, Any] | None:
        """Return the first failure, or None."""
        return read_error(self.path) or None

    def log_paths(self) -> dict[str, Path]:
        """Return the path of each task's log, by the task's name, such as ``worker 0``."""
        return log_paths(self.path)

    def logs(self, task: str | None = None, *, lines: int | None = None) -> dict[str, str]:
        """Return the output of every task, or of one, by the task's name.

        Parameters
        ----------
        task : str, optional
            One task, such as ``"worker 0"``. Default: all.
        lines : int, optional
            Return only this many last lines, and of a line over 64 KB its end. Default: all.
        """
        paths = self.log_paths()
        if task is not None and task not in paths:
            raise TfmusterError(
                Words("The run {} has no task {}.", self.name, Value(task)),
                found=", ".join(paths) or "no logs",
                fix="Name one of these.",
                run=self.name,
            )
        encoding = self.encoding
        return {
            name: whole_text(path, encoding) if lines is None else last_lines(path, lines, encoding)
            for name, path in paths.items()
            if task in (None, name)
        }

    @property
    def encoding(self) -> str | None:
        """Encoding of those lines of the logs that are not UTF-8; None if none is known."""
        return self.info().get("encoding")

    def stacks(self) -> dict[str, str]:
        """Ask the workers where they are, and return their Python stacks and R calls, by the task's name.

        A worker writes them even while it waits in TensorFlow. One that does not respond within five seconds,
        or that runs on a machine without the run directory, is left out. If R is busy in a worker, its stacks
        are those of the moment since which no Python thread has run. Those of a run that has ended are those
        that it left when it stalled.
        """
        return ask_for_stacks(self.path, self.status().get("tasks", {}), running=self.goes_on)

    def history(self) -> dict[str, list[float]]:
        """Return the metrics of each epoch, by name, like Keras's ``History.history``.

        If a restart repeated an epoch, its last metrics count. The epochs of several calls of ``fit`` follow
        each other, and a metric that some of them lack is NaN there.
        """
        return read_history(self.path).lists()

    def model(self) -> Any:
        """Load the model in ``model.keras``, or else one that a function returned, in Keras's safe mode."""
        from ..models.saving import model_from_bytes, model_from_file
        from .values import returned_model

        if self.model_path.exists():
            return model_from_file(self.model_path)
        returned = returned_model(self.path, self.log_paths())
        if returned is None:
            raise TfmusterError(
                f"The run {self.name} has no model.",
                found=f"no {self.model_path}; the run is {self.status()['state']}",
                fix=Words(
                    "Let the program save the model there, on every worker: {}",
                    Code("tfmuster.save_model(model)", "model_to_file(model)"),
                ),
                run=self.name,
            )
        return model_from_bytes(returned)

    def values(self) -> Values:
        """Return the value of each worker of ``launch(function)``, after the run has succeeded.

        Raises
        ------
        WorkerError
            If a worker failed.
        TfmusterError
            If reading the values could run code of another user (reason ``foreign``) or of another machine
            (reason ``not-plain``). See docs/security.md.
        """
        # To list runs takes a tenth less time without it.
        from .values import Values, values_of

        self.wait()
        self.check()
        return Values(values_of(self.path, self.log_paths()), self)

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until the run has ended, at most `timeout` seconds, and return its status."""
        return wait_for_end(self.path, timeout)

    def check(self) -> None:
        """Raise the first failure, if the run has failed.

        Raises
        ------
        WorkerError
            If a worker failed: the error that :func:`tfmuster.launch` raises.
        TfmusterError
            If the run was interrupted, or its launcher has gone.
        """
        state = self.status()["state"]
        if (error := self.error()) and state == "failed":
            from .failure.failure import Failure

            raise Failure.from_dict(error).to_error()
        if state not in ("done", *UNFINISHED):
            raise TfmusterError(f"The run {self.name} did not finish.", found=state, run=self.name)

    def stop(self, timeout: float = 10.0, *, save: bool = False) -> dict[str, Any]:
        """End the run and all its processes, and return the status.

        You can call this in any session on the run's machine or in its batch system. A run that has ended
        stays unchanged; of a lost one, processes that are left are ended. The session that waits for the run
        gets an error, and continues.

        Parameters
        ----------
        timeout : float
            How long to wait for the end, in seconds; with ``save``, in addition to the time to save.
        save : bool
            Let all workers write a checkpoint after the same step first. Then the state is ``preempted``, and
            the run can be resumed there. The program trains with :func:`tfmuster.checkpoint_callback`.

        Raises
        ------
        TfmusterError
            The run belongs to another user (reason ``foreign``), can't be stopped from here, or can't be
            saved now.
        """
        return stop_run(self.path, timeout, save=save)

    def resume(self) -> Run:
        """Restart the run in the background, as it was launched, and return it when its workers run.

        A program with :func:`tfmuster.checkpoint_callback` resumes from its newest checkpoint. After
        ``stop(save=True)`` or a shutdown signal, that is the step at which it stopped.

        Raises
        ------
        LaunchError
            The run has not ended, its program has finished, or it can't be launched from here (reason
            ``resume``).
        """
        resume_run(self.path)
        return self

    @property
    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return self.status()["state"] in UNFINISHED

    def remove(self) -> list[str]:
        """Remove the run from the disk.

        Only what tfmuster has written is removed, and the directory if it is empty then. The program's
        checkpoints, its model and TensorBoard's files are removed, too, if :func:`tfmuster.launch` has chosen
        the name of the directory. From a ``run_dir`` of yours they are not.

        Returns
        -------
        list of str
            Names of the files in the directory that are not the run's, and stay.

        Raises
        ------
        TfmusterError
            If the run has not ended, has no record, or is another user's (reason ``foreign``).
        """
        if self.goes_on:
            raise TfmusterError(
                f"The run {self.name} must have ended before it is removed.",
                found=f"it is {self.status()['state']}",
                fix=f"Stop it first: {stop_text(self.name)}",
                run=self.name,
            )
        return remove_files(self.path)
