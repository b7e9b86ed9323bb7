"""Errors that say what was expected, what was found, and what to do.

Every error that tfmuster raises on purpose is a :class:`TfmusterError`. The R package raises the
same error as a condition of class ``tfmuster_error_<kind>`` with the same fields, so ``kind`` and the
field names are part of the public interface.

No TensorFlow import here: a bad cluster must be reported at once.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .words import hints_in, now

#: Exit codes of every command; documented in ``tfmuster --help``.
EXIT_DONE = 0
EXIT_WORKER_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_EVERYONE = 3
EXIT_INTERRUPTED = 130


class TfmusterError(Exception):
    """Base class of every error raised on purpose.

    Parameters
    ----------
    message : str
        What was expected, in one sentence.
    found : str, optional
        What was found instead.
    fix : str, optional
        What the user can do about it.
    **fields
        Machine-readable details, available as ``error.fields`` and in R as fields of the condition. If the
        texts name settings of `launch()`, they are in ``hints``: a list of ``option`` and ``value``.

    Attributes
    ----------
    kind : str
        Stable name of the kind of error; the R class is ``tfmuster_error_<kind>``.
    exit_code : int
        Exit code of a command that ends with this error.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = EXIT_USAGE
    #: Fields that are None if they are not given.
    optional: ClassVar[tuple[str, ...]] = ()

    # TensorFlow makes a StagingError of what is raised in a traced function, and Keras an error without the
    # fields of what is raised in a layer. Both leave those alone that have these attributes.
    ag_pass_through: ClassVar[bool] = True
    _keras_call_info_injected: ClassVar[bool] = True

    def __init__(
        self, message: str, *, found: str | None = None, fix: str | None = None, **fields: Any
    ) -> None:
        self.message = now(message)
        super().__init__(self.message)
        self.found = now(found)
        self.fix = now(fix)
        self.fields = dict.fromkeys(self.optional) | fields
        if hints := hints_in(self.message, self.found, self.fix):
            self.fields.setdefault("hints", hints)

    def __str__(self) -> str:
        lines = [self.message]
        if self.found:
            lines.append(f"  found: {self.found}")
        if self.fix:
            lines.append(f"  to do: {self.fix}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-ready data: kind, message, found, fix and its own fields."""
        return {
            "kind": self.kind,
            "message": str(self.message),
            "found": self.found and str(self.found),
            "fix": self.fix and str(self.fix),
            **self.fields,
        }


def parts_of(printed: str) -> dict[str, str] | None:
    """Return ``message``, ``found`` and ``fix`` of the error that a command of tfmuster has printed last.

    None if it has printed none, but perhaps a traceback.
    """
    _, begin, error = f"\n{printed}".rpartition("\nError: ")
    text, _, fix = error.strip().partition("\n  to do: ")
    message, _, found = text.partition("\n  found: ")
    return {"message": message, "found": found, "fix": fix} if begin else None


class TfmusterWarning(UserWarning):
    """Warning about something that was repaired or looks odd. In R its class is ``tfmuster_warning``."""


class ClusterError(TfmusterError):
    """A cluster description, a task or a TF_CONFIG text can't be used.

    Fields: ``findings``, every finding at once (see :mod:`tfmuster.cluster.check`).
    """

    kind = "cluster"


class StrategyError(TfmusterError):
    """A distribution strategy can't be made here. Fields: ``strategy``, ``reason``."""

    kind = "strategy"


class DataError(TfmusterError):
    """A data set is missing, damaged or of the wrong shape. Fields: ``path``, ``reason``."""

    kind = "data"
    optional = ("path",)


class StateError(DataError):
    """The workers' weights differ during a training, which can continue from a checkpoint: no usage error."""

    exit_code = EXIT_WORKER_FAILED


class ModelError(TfmusterError):
    """A model name, a hyper-parameter or a model file can't be used. Fields: ``reason``."""

    kind = "model"


class CheckpointError(TfmusterError):
    """A checkpoint can't be written, or belongs to another model. Fields: ``path``, ``reason``."""

    kind = "checkpoint"
    optional = ("path",)
    exit_code = EXIT_WORKER_FAILED


class DependencyError(TfmusterError):
    """A required package is missing or has the wrong version. Fields: ``package``."""

    kind = "dependency"


class LaunchError(TfmusterError):
    """The processes of a job can't be started. Fields: ``reason``."""

    kind = "launch"


class RendezvousError(TfmusterError):
    """The tasks did not all arrive in time, or their clusters or versions differ."""

    kind = "rendezvous"
    exit_code = EXIT_NOT_EVERYONE


class WorkerError(TfmusterError):
    """A worker of a job failed. Fields: ``task``, ``exit_code`` and the path of the log."""

    kind = "worker"
    exit_code = EXIT_WORKER_FAILED
