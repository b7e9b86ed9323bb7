"""Run a program and read its answer within a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

#: Largest answer that is read, in bytes.
_LONGEST = 1 << 20


class NoAnswerError(Exception):
    """The program could not be started, or did not end in time. The text says which."""


@dataclass(frozen=True)
class Answer:
    """The exit code and the output of a program."""

    #: Negative for a signal.
    code: int
    #: Like `errors`, at most 1 MiB.
    output: str
    errors: str

    @property
    def first_line(self) -> str:
        """The first nonempty line of the output or, if there is none, of the errors."""
        lines = (line.strip() for text in (self.output, self.errors) for line in text.splitlines())
        return next(filter(None, lines), "no output")


def ask(
    *command: str | os.PathLike[str],
    seconds: float,
    env: Mapping[str, str] | None = None,
    input: str = "",
) -> Answer:
    """Run a program to its end, without a shell, and return its answer.

    After `seconds`, the program and all processes that it has started are killed. `env` is the complete
    environment, by default that of this process. `input` is text for its standard input. Raises NoAnswerError
    if the program can't be started, or takes too long.
    """
    # A word may be the text of a program.
    name = textwrap.shorten(" ".join(os.fspath(word) for word in command[:3]), 200, placeholder=" ...")
    # Use files, because a process that outlives the program would keep a pipe open.
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(input.encode())
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=out, stderr=err, env=env, start_new_session=True
            )
        except OSError as error:
            raise NoAnswerError(f"{name} can't be started: {error.strerror}") from error
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NoAnswerError(f"{name} does not answer within {seconds:g} s") from None
        finally:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(_LONGEST).decode(errors="replace"))
    return Answer(code, *texts)
