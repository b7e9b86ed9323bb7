"""Find the first failure of a job and describe it in text."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path
from typing import Any

from ... import errors
from ...errors import EXIT_USAGE, LaunchError, WorkerError
from ...options.hints import Hint
from ...system.terminal_text import safe_text
from ...words import Words, hints_in
from .texts import HEADER, R_ERROR, advice_for, cause_of, own_lines, without_traceback

#: How many of a failed worker's last output lines are shown.
LAST_LINES = 20

#: The error of a worker that neither ends nor continues.
FROZEN = "is frozen ({} is stopped by a signal)"
#: Errors that a worker raises when a peer has gone, TensorFlow's and tfmuster's own.
_PEER_IS_GONE = re.compile(
    r"tensorflow\.[\w.]+\.(Unavailable|Aborted|Cancelled|DeadlineExceeded)Error: "
    r"|tfmuster\.errors\.WorkerError: "
)
#: How long the launcher may take to notice that a worker has ended, in seconds.
_NOTICED_SECONDS = 1.0
_R_HEADER = "Backtrace:"
#: How Python shows errors that tfmuster raises itself.
_ON_PURPOSE = re.compile(r"tfmuster\.errors\.(\w+): ")
#: What TensorFlow says in every process when it starts: its messages of the level INFO.
_AT_START = re.compile(
    r"I\d{4} \d\d:\d\d:[\d.]+ +\d+ [\w.]+:\d+\] |\d{4}-\d\d-\d\d [\d:.]+: I tensorflow/"
    r"|WARNING: All log messages before absl::InitializeLog\(\) is called"
    r"|To enable the following instructions: .*rebuild TensorFlow"
)
_TEXTS_OF_NOTES = ("error", "traceback", "fix", "condition", "python")


@dataclass(frozen=True)
class Failure:
    """A worker's failure."""

    #: In seconds since the epoch.
    time: float
    #: The worker that failed, and the machine that it ran on.
    task: str
    host: str
    #: None if a signal ended the worker, or if it is frozen.
    exit_code: int | None
    #: The signal's name, such as ``SIGKILL``.
    signal: str | None
    #: The Python exception in one line and with its traceback, or the error of an R script. May be empty.
    error: str
    traceback: str
    #: The last lines of the worker's output, and the path of all of it.
    last_lines: tuple[str, ...]
    log: str
    #: What to do, if the error says so, or if it is known.
    fix: str | None = None
    #: The settings of ``launch()`` that these texts name: ``option`` and ``value``.
    hints: tuple[dict[str, Any], ...] = ()
    #: The classes of the condition that an R program has failed with.
    classes: tuple[str, ...] = ()
    #: That of an R script as data, with its fields, for R: an uncompressed RDS file in hexadecimal.
    condition: str | None = None
    #: The Python whose import has failed, or that of the R whose program has failed.
    python: str | None = None
    #: Who has chosen that Python, if it is known: an environment variable, or tfmuster itself.
    python_by: str | None = None

    def __post_init__(self) -> None:
        # The program has written these texts, perhaps on another machine, and terminals will show them.
        safe: dict[str, object] = {
            **{name: safe_text(getattr(self, name)) for name in ("task", "host", "error", "traceback")},
            **{
                name: safe_text(text) if (text := getattr(self, name)) else None
                for name in ("fix", "python", "python_by")
            },
            "last_lines": tuple(map(safe_text, self.last_lines)),
            "hints": _known_hints(self.hints),
            "classes": tuple(safe_text(name) for name in _items(self.classes) if isinstance(name, str)),
        }
        for name, value in safe.items():
            object.__setattr__(self, name, value)

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
        """Make a failure from an exit code, as in `subprocess`, and the note that the worker left.

        A frozen worker has no exit code. The note marks a worker that is frozen or lost. The exit code of a
        lost worker is unknown. Another machine may have sent any note: what can't be is left out.
        """
        if note.get("lost"):
            code = None
        texts = {name: note[name] for name in _TEXTS_OF_NOTES if isinstance(note.get(name), str)}
        error = texts.pop("error", "") or _r_error(last_lines)
        python, python_by = texts.get("python"), None
        if python and host == socket.gethostname():
            from ...system.script_python import chosen_by

            python_by = chosen_by(python, in_r=bool(R_ERROR.match(error)))
        failure = cls(
            time=note["time"] if _is_time(note.get("time")) else time,
            task=task,
            host=host,
            exit_code=code if code is not None and code >= 0 else None,
            signal=signal_name(-code) if code is not None and code < 0 else None,
            error=error,
            last_lines=last_lines,
            log=log,
            hints=note.get("hints", ()),
            classes=note.get("classes", ()),
            python_by=python_by,
            **{"traceback": "", **texts},
        )
        if failure.fix or not (advice := failure.advice()):
            return failure
        return replace(failure, fix=str(advice), hints=tuple(hints_in(advice)))

    @property
    def not_everyone(self) -> bool:
        """Whether the rendezvous failed."""
        return self.error.startswith("tfmuster.errors.RendezvousError: ")

    @property
    def is_permanent(self) -> bool:
        """Whether a restart would fail again, because of wrong usage or bad input."""
        on_purpose = _ON_PURPOSE.match(self.error)
        kind = getattr(errors, on_purpose[1], None) if on_purpose else None
        return EXIT_USAGE in (self.exit_code, getattr(kind, "exit_code", None))

    @property
    def cause_time(self) -> float:
        """Time to compare failures by, in seconds since the epoch.

        The error of a worker that misses a peer counts as later, because it may notice that a peer has gone
        before the launcher does.
        """
        return self.time + (_NOTICED_SECONDS if _PEER_IS_GONE.match(self.error) else 0)

    @property
    def shown_error(self) -> str:
        """The error, without the class of those that tfmuster raises itself."""
        return _ON_PURPOSE.sub("", self.error)

    def headline(self) -> str:
        """Describe the failure in one line."""
        cause = self._cause()
        if self.not_everyone or cause is None:
            return cause or self.ending()
        return f"{self.ending().removesuffix('.')}: {cause}"

    def cause_first(self, cause: str | None = None) -> str:
        """Describe it in one line that begins with its cause, by default that of the program's last lines."""
        cause = self._cause() if cause is None else cause.partition("\n")[0]
        if self.not_everyone or cause is None:
            return cause or self.ending()
        return f"{cause} ({self.ending().removesuffix('.')})"

    def _cause(self) -> str | None:
        """Return the program's own error in one line; None if nothing but its end is known."""
        if self.not_everyone:
            # All tasks report the same error.
            return cause_of(self.shown_error)
        if not self.shown_error or (self.exit_code is None and self.signal is None):
            return None
        return cause_of(self.shown_error, self.last_lines)

    def ending(self) -> str:
        """Describe how the worker ended, in one line without its error."""
        if self.exit_code is None and self.signal is None:
            return f"{self.task} on {self.host} {self.error}."
        how = f"was ended by {self.signal}" if self.signal else f"failed with exit code {self.exit_code}"
        if self.exit_code is not None and 128 < self.exit_code < 160:
            how += f" ({signal_name(self.exit_code - 128)})"
        return f"{self.task} on {self.host} {how}."

    def advice(self) -> str | None:
        """Return what to do about the failure, or None if that is not known."""
        return advice_for(
            self.error,
            self.headline(),
            host=self.host,
            here=socket.gethostname(),
            python=self.python,
            python_by=self.python_by,
        )

    def __str__(self) -> str:
        return self.report()

    def report(self, *, shown: bool = False) -> str:
        """Describe the failure. With `shown`, a traceback replaces the last lines, which were shown."""
        details = self.details(shown=shown and self.traceback.startswith(HEADER))
        # An error of tfmuster itself says what to do in its text.
        advice = self.advice() or (None if self.fix is None or self.fix in self.error else self.fix)
        fix = [f"To do: {advice}"] if advice else []
        return "\n".join([self.headline(), *details, "", f"Full output: {self.log}", *fix])

    def details(self, *, shown: bool = False) -> list[str]:
        """Return the lines below the headline; with `shown`, without the output that was shown."""
        on_purpose = _ON_PURPOSE.match(self.error)
        # An error of tfmuster itself has all details.
        text = self.error.splitlines()[1:] if on_purpose else []
        lines = [] if shown or self.not_everyone else self.lines_before()
        if lines:
            text += ["", "Its last lines:", *(f"  {line}" for line in lines)]
        if self.traceback and not on_purpose:
            if self.traceback.startswith(HEADER):
                text += ["", *own_lines(self.traceback)]
            elif not shown:
                text += ["", *self.traceback.rstrip().splitlines()]
        return text

    def frames(self) -> list[str]:
        """Return the user's own lines of the traceback, without its header and the error itself."""
        if _ON_PURPOSE.match(self.error):
            return []
        if not self.traceback.startswith(HEADER):
            return self.traceback.partition(f"{_R_HEADER}\n")[2].splitlines()
        return list(takewhile(lambda line: line.startswith("  "), own_lines(self.traceback)[1:]))

    def lines_before(self) -> list[str]:
        """Return the last lines without the error, its traceback, and what TensorFlow says at its start."""
        lines = without_traceback(self.traceback, self.error, self.last_lines)
        lines = [line for line in lines if not _AT_START.match(line)]
        shown = f"Error: {_ON_PURPOSE.sub('', self.error)}".splitlines()[0]
        return lines[: lines.index(shown)] if self.traceback and shown in lines else lines

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, as in ``error.json``. The time is in ISO 8601, UTC."""
        when = datetime.fromtimestamp(self.time, timezone.utc).isoformat(timespec="milliseconds")
        return {**asdict(self), "time": when}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Failure:
        """Make the failure from the result of :meth:`to_dict`."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        return cls(**{**known, "time": datetime.fromisoformat(values["time"]).timestamp()})

    def to_error(self) -> WorkerError:
        """Return the exception to raise for this failure."""
        # An error of tfmuster itself has both parts in its text.
        error, _, remedy = self.error.partition("\n  to do: ")
        details = replace(self, error=error).details()
        found = "\n".join([*details, "", f"Full output: {self.log}"]).strip().removeprefix("found: ")
        fix = self.fix or remedy or self.advice()
        return WorkerError(self.headline(), found=found, **{**self.to_dict(), "fix": fix})


def _r_error(lines: Sequence[str]) -> str:
    """Return the error that ended Rscript in one line, from its last lines; "" if no error ended it."""
    begin = max((at for at, line in enumerate(lines) if R_ERROR.match(line)), default=None)
    if begin is None or lines[-1] != "Execution halted":
        return ""
    first, then = lines[begin].rstrip(), "".join(lines[begin + 1 : -1][:1])
    # R starts a long message, or one with several parts, on a new line.
    return f"{first} {then.lstrip(' !')}" if first.endswith(":") else first


def not_writable(run_path: Path, error: OSError) -> LaunchError:
    """Make the error for a run directory that can no longer be written."""
    if not run_path.is_dir():
        return LaunchError(
            "The run directory must stay where it is while the job runs.",
            found=f"{run_path} has been moved or removed",
            fix="Launch the job again; a program with checkpoints continues in a copy of the directory.",
            reason="run-moved",
        )
    return LaunchError(
        "The run directory must be writable while the job runs.",
        found=f"{run_path}: {error.strerror}",
        fix=Words("Free some space, or choose another place with {}.", Hint("run_dir")),
        reason="disk",
    )


def signal_name(number: int) -> str:
    """Return the name of a signal: ``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _known_hints(value: object) -> tuple[dict[str, Any], ...]:
    """Return the hints that a note or a file has; what can't be one is left out."""
    return tuple(
        {"option": hint["option"], "value": hint.get("value")}
        for hint in _items(value)
        if isinstance(hint, Mapping) and _is_name(hint.get("option")) and _is_plain(hint.get("value"))
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _is_plain(value: object) -> bool:
    """Return whether a value is what an option may have, and safe to show."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and value.isprintable())


def _is_time(value: object) -> bool:
    """Return whether a value is a time in seconds since the epoch, of which there is a date."""
    try:
        return isinstance(value, int | float) and bool(datetime.fromtimestamp(value, timezone.utc))
    except (ValueError, OverflowError, OSError):
        return False
