"""What the user of a failed worker needs: the cause in one line, own lines of a traceback, and what to do."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from ...options.hints import Hint
from ...system.user_code import LIBRARY
from ...words import Words

HEADER = "Traceback (most recent call last):"

#: How R shows an unhandled error.
R_ERROR = re.compile(r"Error( in .*)?:")
_FRAME = re.compile(r'\s*File "([^"]+)", line \d+')

#: How many lines of the error itself are shown, and how many characters of a headline.
_MOST_LINES, _MOST_CHARACTERS = 30, 400

#: What TensorFlow says before the cause.
_BEFORE_CAUSE = re.compile(
    r"\s*$|\s{2,}|Detected at node|\s+File |\s*<stack traces|\s*\[\[|\s*Original stack trace"
)
_NAMES_OF_CAUSE = "Graph execution error:"
_PER_REPLICA = re.compile(r"\(PerReplica:\{.*?\n\}\)", re.DOTALL)

#: What R says of a file that it can't open, and the warning that says why.
_NO_CONNECTION = "cannot open the connection"
_UNOPENED = re.compile(r"cannot open (?:compressed )?(?:file|URL) '.*")

#: What Python writes between the traceback of a cause and that of its consequence.
_CHAINED = re.compile(r"^(The above exception was the direct cause|During handling of the above)", re.M)


def cause_of(error: str, output: Sequence[str] = ()) -> str:
    """Return an error in one line that holds its cause, which R may have written before, as a warning."""
    cause = _first_line(error)
    reasons = [match[0] for line in output if (match := _UNOPENED.search(line))]
    if cause.endswith(_NO_CONNECTION) and reasons:
        cause = cause.removesuffix(_NO_CONNECTION) + reasons[-1]
    return cause if len(cause) <= _MOST_CHARACTERS else f"{cause[:_MOST_CHARACTERS]}..."


def _first_line(error: str) -> str:
    error = _PER_REPLICA.sub("(PerReplica:{...})", error)
    first, _, rest = error.partition("\n")
    if first.rstrip().endswith(_NAMES_OF_CAUSE):
        kind = first.rstrip().removesuffix(_NAMES_OF_CAUSE).rstrip()
        causes = [line.strip() for line in rest.splitlines() if not _BEFORE_CAUSE.match(line)]
        return f"{kind} {causes[0]}" if causes else first
    if first.rstrip().endswith((":", "(", "[", "{")):
        # The text begins below its kind.
        more = next((line.strip() for line in rest.splitlines() if line.strip()), "")
        return f"{first.rstrip()} {more}"
    return first


def own_lines(traceback: str) -> list[str]:
    """Return a traceback without library frames (or with the last, if all are), and the error's start."""
    frames: list[tuple[str, list[str]]] = []
    error: list[str] = []
    for line in traceback.rstrip().splitlines():
        if match := _FRAME.match(line):
            frames.append((match[1], [line]))
            error = []
        elif frames and not error and line.startswith("    "):
            frames[-1][1].append(line)
        elif line == HEADER or (not line.strip() and not error):
            # A new traceback, of what was raised while the one before was handled.
            frames = [] if line == HEADER else frames
            error = []
        else:
            error.append(line)
    shown = [frame for frame in frames if not LIBRARY.search(frame[0])] or frames[-1:]
    left = len(frames) - len(shown)
    lines = [HEADER, *(line for _, frame in shown for line in frame)] if frames else []
    if left:
        lines.append(f"  ({left} frame{'' if left == 1 else 's'} of libraries: see the full output)")
    lines += error[:_MOST_LINES]
    if len(error) > _MOST_LINES:
        lines.append(f"... ({len(error) - _MOST_LINES} more lines: see the full output)")
    return lines


def without_traceback(traceback: str, error: str, lines: Sequence[str]) -> list[str]:
    """Remove the lines of the traceback, which may have started before the first of `lines`.

    What Python prints may differ from what the traceback module writes: Keras removes its own frames.
    """
    lines = [line.rstrip() for line in lines]
    if not traceback or not error:
        return lines
    if R_ERROR.match(error):
        begin = max((at for at, line in enumerate(lines) if R_ERROR.match(line)), default=None)
        return lines[:begin]
    # A mistake in a script is printed without a header, and with another text than its error has.
    written = [line.rstrip() for line in traceback.rstrip().splitlines()]
    for end in range(len(lines), 0, -1):
        if lines[:end][-len(written) :] == written[-end:]:
            return lines[: max(0, end - len(written))] + lines[end:]
    text = [line.rstrip() for line in error.splitlines()]
    for end in range(len(lines), 0, -1):
        # Its text may have started before the first line, too.
        if lines[:end][-len(text) :] == text[-end:]:
            start = _last_traceback(lines[:end])
            return lines[: 0 if start is None else start] + lines[end:]
    return lines[: _last_traceback(lines)]


def _last_traceback(lines: Sequence[str]) -> int | None:
    """Return where the last traceback begins, with those of its causes, or None. Others were handled."""
    headers = [at for at, line in enumerate(lines) if line == HEADER]
    while len(headers) > 1 and _CHAINED.search("\n".join(lines[headers[-2] : headers[-1]])):
        headers.pop()
    return headers[-1] if headers else None


#: Start of the error of a worker whose host has stopped answering.
LOST = "was lost: "

#: The first word of an import that fails in Python. reticulate writes it, or its own words, into R's error.
_NO_IMPORT = re.compile(r"(?:ModuleNotFoundError|ImportError)\b: ")
_NO_MODULE = re.compile(r"No module named '([\w.]+)'|Python module ([\w.]+) was not found")
_NO_FILE = re.compile(
    r"(?:FileNotFoundError: \[Errno 2\] No such file or directory"
    r"|.*NotFoundError: .*No such file or directory).*?['\"]([^'\"]+)['\"]"
)

#: An older reticulate, whose C code was compiled for numpy 1, says this when it converts an array.
_NUMPY_2 = re.compile(r"Required version of NumPy not available")
_NO_FILE_IN_R = re.compile(r".*cannot open (?:compressed )?file '([^']+)'.*No such file or directory")
#: What TensorFlow says of variables that a program has made itself, in a loop without ``strategy.run()``.
_OWN_VARIABLES = re.compile(
    r"DistributedVariable\.handle is not available"
    r"|EagerTensor' object has no attribute 'assign"
    r"|generated from the cross-replica context in an in-replica context"
)
_NO_MEMORY = re.compile(r"MemoryError\b|.*ResourceExhaustedError: .*OOM when allocating")


def advice_for(
    error: str,
    headline: str,
    *,
    host: str,
    here: str,
    python: str | None = None,
    python_by: str | None = None,
) -> str | None:
    """Return what to do about a failure, or None if that is not known.

    `error` is the worker's, as Python or R names it, and `headline` the failure in one line. `host` and
    `here` are the machines of the worker and of the launcher. `python` is the worker's, where it is known,
    and `python_by` has chosen it.
    """
    if "SIGKILL" in headline:
        return (
            "If nobody killed it, the machine ran out of memory: see `dmesg`. Use fewer workers or smaller "
            "batches."
        )
    if error.startswith(LOST):
        return f"Check that {host} is up, and that the network lets its connection last."
    in_r = bool(R_ERROR.match(error))
    if _NO_IMPORT.match(error) or (in_r and _NO_MODULE.search(error)):
        missing = _NO_MODULE.search(error)
        module = (missing[1] or missing[2]).partition(".")[0] if missing else None
        chosen = f"{python} ({python_by})" if python and python_by else python
        return _import(module, python, chosen=chosen, host=None if host == here else host, in_r=in_r)
    if (match := _NO_FILE.match(error) or _NO_FILE_IN_R.match(headline)) and host != here:
        return _send(match[1], host)
    if _NO_MEMORY.match(error):
        return "Use smaller batches, fewer workers on this machine, or a smaller model."
    if _OWN_VARIABLES.search(error):
        return Words(
            "With {}, variables of the program's own belong to the strategy of all workers: use them in "
            "functions that strategy.run() calls, or train with fit().",
            Hint("distribute", True),
        )
    if _NUMPY_2.search(error):
        return (
            "This reticulate can't read numpy 2. Install numpy 1 with `pip install 'numpy<2'`, or update "
            "reticulate."
        )
    return None


def _import(
    module: str | None, python: str | None, *, chosen: str | None, host: str | None, in_r: bool
) -> str:
    """Return what to do about an import that failed, maybe because a module is missing, in a Python.

    `chosen` is the Python, and who has chosen it.
    """
    from ...system.script_python import WITH_PYTHON

    where = "the Python that runs the workers" if host is None else f"the Python of the workers on {host}"
    where = f"{where}, {chosen}" if chosen else where
    how = f"{shlex.quote(python) if python else 'PYTHON'} -m "
    if host is not None:
        other = Words("choose another with {}", Hint("remote_python"))
    elif in_r:
        other = Words("choose another by {}", "the environment variable RETICULATE_PYTHON")
    else:
        other = Words("run a script with another: {}", WITH_PYTHON)
    if module is None:
        return Words("The import failed in {}. Repair its packages, or {}", where, other)
    if host is not None and (own := _own_module(module)):
        return Words(
            "{} is a module of your own, which {} does not have. Send it with {}.",
            module,
            host,
            Hint("files", own),
        )
    if module in ("tensorflow", "keras"):
        from ...system.tensorflow_import import HOW_TO_INSTALL

        return Words("Install TensorFlow for {}: {}{}. Or {}", where, how, HOW_TO_INSTALL, other)
    return Words("Install {} for {}: {}pip install {}. Or {}", module, where, how, module, other)


def _own_module(module: str) -> str | None:
    """Return the file or folder of a module in the working directory, if it is there."""
    return next((path for path in (f"{module}.py", module) if os.path.exists(path)), None)


def _send(path: str, host: str) -> str:
    if path.startswith("/"):
        return f"Put {path} on {host} and on the other hosts, or pass a path that exists there."
    return Words(
        "The path {} is relative to the working directory on {}. Send it with {}, or pass an absolute path "
        "that exists on all hosts.",
        path,
        host,
        Hint("files", path),
    )
