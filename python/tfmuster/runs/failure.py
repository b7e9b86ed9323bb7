"""The first failure of a job: which it is, and how it reads."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import EXIT_USAGE, LaunchError, WorkerError

#: How many of a failed worker's last lines are shown.
LAST_LINES = 20

#: The error of a worker that does not end and does not go on.
FROZEN = "is frozen ({} is stopped by a signal)"
#: How the error of a worker begins whose host is not heard any more.
LOST = "was lost: "
#: What TensorFlow raises where a peer is gone.
_PEER_IS_GONE = re.compile(r"tensorflow\.[\w.]+\.(Unavailable|Aborted|Cancelled|DeadlineExceeded)Error: ")
#: How long the launcher may take to see that a worker has ended, seconds.
_NOTICED_SECONDS = 1.0
#: How R shows an error that nobody handles.
_R_ERROR = re.compile(r"Error( in .*)?:")
#: How Python shows the errors that tfmuster raises on purpose.
_ON_PURPOSE = re.compile(r"tfmuster\.errors\.(\w+): ")


@dataclass(frozen=True)
class Failure:
    """A worker's failure.

    Attributes
    ----------
    time : float
        When, seconds since 1970.
    task, host : str
        Which worker, and where.
    exit_code : int or None
        None if a signal ended it, or it is frozen.
    signal : str or None
        The signal's name, such as ``SIGKILL``.
    error, traceback : str
        The Python exception in one line, and whole, or the error of an R script; "" if there was none.
    last_lines : tuple of str
        The end of its output.
    log : str
        Path of its whole output.
    """

    time: float
    task: str
    host: str
    exit_code: int | None
    signal: str | None
    error: str
    traceback: str
    last_lines: tuple[str, ...]
    log: str

    @classmethod
    def of(
        cls,
        task: str,
        *,
        host: str,
        code: int | None,
        time: float,
        note: Mapping[str, Any],
        last_lines: tuple[str, ...],
        log: str,
    ) -> Failure:
        """A failure, from an exit code as `subprocess` gives it and the note that `sitecustomize` left.

        Without an exit code, of a process that is frozen; the note says so, as it does of one that is lost,
        whose own exit code nobody knows.
        """
        if note.get("lost"):
            code = None
        return cls(
            time=note.get("time", time),
            task=task,
            host=host,
            exit_code=code if code is not None and code >= 0 else None,
            signal=signal_name(-code) if code is not None and code < 0 else None,
            error=note.get("error", "") or _r_error(last_lines),
            traceback=note.get("traceback", ""),
            last_lines=last_lines,
            log=log,
        )

    @property
    def not_everyone(self) -> bool:
        """Whether the tasks did not come together."""
        return self.error.startswith("tfmuster.errors.RendezvousError: ")

    @property
    def is_permanent(self) -> bool:
        """Whether the same program would fail again: it was used wrongly, or its input is bad."""
        on_purpose = _ON_PURPOSE.match(self.error)
        kind = getattr(errors, on_purpose[1], None) if on_purpose else None
        return EXIT_USAGE in (self.exit_code, getattr(kind, "exit_code", None))

    @property
    def cause_time(self) -> float:
        """When its cause was at work, for comparison.

        TensorFlow may miss a peer sooner than the launcher sees that it is gone.
        """
        return self.time + (_NOTICED_SECONDS if _PEER_IS_GONE.match(self.error) else 0)

    def headline(self) -> str:
        """What happened, in one line."""
        if self.not_everyone:
            # All of them say the same.
            return _ON_PURPOSE.sub("", self.error).splitlines()[0]
        if self.exit_code is None and self.signal is None:
            return f"{self.task} on {self.host} {self.error}."
        how = f"was ended by {self.signal}" if self.signal else f"failed with exit code {self.exit_code}"
        if self.exit_code is not None and 128 < self.exit_code < 160:
            how += f" ({signal_name(self.exit_code - 128)})"
        error = _ON_PURPOSE.sub("", self.error)
        return f"{self.task} on {self.host} {how}" + (f": {error.splitlines()[0]}" if error else ".")

    def advice(self) -> str | None:
        """What to do about it, where that can be said."""
        if "SIGKILL" in self.headline():
            return (
                "If nobody killed it, the machine ran out of memory: see `dmesg`; use fewer workers or "
                "smaller batches."
            )
        if self.error.startswith(LOST):
            return f"Check that {self.host} is up, and that the network lets its connection last."
        return None

    def __str__(self) -> str:
        text = [self.headline()]
        on_purpose = bool(_ON_PURPOSE.match(self.error))
        if on_purpose:
            # It says all by itself.
            text += self.error.splitlines()[1:]
        lines = _without(self.traceback, self.last_lines)
        shown = f"Error: {_ON_PURPOSE.sub('', self.error)}".splitlines()[0]
        if self.traceback and shown in lines:
            lines = lines[: lines.index(shown)]
        if lines and not self.not_everyone:
            text += ["", "Its last lines:", *(f"  {line}" for line in lines)]
        if self.traceback and not on_purpose:
            text += ["", *self.traceback.rstrip().splitlines()]
        text += ["", f"Its whole output: {self.log}"]
        if advice := self.advice():
            text.append(f"To do: {advice}")
        return "\n".join(text)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, as in ``error.json``; the time in ISO 8601, UTC."""
        when = datetime.fromtimestamp(self.time, timezone.utc).isoformat(timespec="milliseconds")
        return {**asdict(self), "time": when}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Failure:
        """What :meth:`to_dict` was made of."""
        when = datetime.fromisoformat(values["time"]).timestamp()
        names = (field.name for field in fields(cls))
        known = {name: values[name] for name in names if name in values}
        return cls(**{**known, "time": when, "last_lines": tuple(values["last_lines"])})

    def to_error(self) -> WorkerError:
        """The exception to raise for it."""
        return WorkerError(
            self.headline(), found="\n".join(str(self).splitlines()[1:]).strip(), **self.to_dict()
        )


def _without(traceback: str, lines: Sequence[str]) -> list[str]:
    """Lines without those of the traceback, which may have begun before them."""
    lines = list(lines)
    trace = [line.rstrip() for line in traceback.rstrip().splitlines()]
    if trace and trace[0] in lines:
        return lines[: lines.index(trace[0])]
    for count in range(min(len(trace), len(lines)), 0, -1):
        if lines[:count] == trace[-count:]:
            return lines[count:]
    return lines


def _r_error(lines: Sequence[str]) -> str:
    """The error with which Rscript has ended, by its last lines; "" if it has not."""
    return _last_r_error(lines[:-1]) if lines and lines[-1] == "Execution halted" else ""


def _last_r_error(lines: Sequence[str]) -> str:
    """The last error among lines that R has written, in one line."""
    begin = max((at for at, line in enumerate(lines) if _R_ERROR.match(line)), default=None)
    if begin is None:
        return ""
    first, then = lines[begin].rstrip(), "".join(lines[begin + 1 : begin + 2])
    # A message that is long or has parts begins on a line of its own.
    return f"{first} {then.lstrip(' !')}" if first.endswith(":") else first


def not_writable(run_path: Path, error: OSError) -> LaunchError:
    """The error for a run directory that can't be written any more."""
    return LaunchError(
        "The run directory must be writable while the job runs.",
        found=f"{run_path}: {error.strerror}",
        fix="Make room, or choose another place with --run-dir.",
        reason="disk",
    )


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
