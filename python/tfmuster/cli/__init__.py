"""Register the verbs of the command line. The module of a verb is loaded when the verb is used."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

import click

from .. import __version__
from ..environment import ERROR_FILE_VARIABLE
from ..errors import EXIT_DONE, EXIT_INTERRUPTED, TfmusterError
from ..system.terminal_text import safe_text
from ..words import speaking

#: Verb: the module of this package that defines it, and its line in the help.
_VERBS = {
    "config": ("cluster", "Print the TF_CONFIG of one task, or of all tasks."),
    "check": ("cluster", "Check a cluster description, and list every finding."),
    "train": ("train", "Train a model, alone or as one worker of several."),
    "launch": ("launch", "Run a script or a command on several workers, here or on other machines."),
    "manifest": ("manifest", "Print a Kubernetes manifest, or commands that rent machines."),
    "worker": (
        "worker",
        "Run a program as the task that MPI, a batch system, Kubernetes or TF_CONFIG names.",
    ),
    "speed": ("speed", "Find fast settings for a training on several workers, by short trials."),
    "runs": ("runs", "List, show, follow, stop, resume and remove runs."),
    "token": ("machine", "Make a secret for workers that you start yourself."),
    "strategies": ("machine", "Show what each strategy trains with, and whether it works here."),
    "doctor": ("machine", "Show what is installed here, for yourself or for an issue."),
    "test": ("machine", "Train on two workers here for a moment, and say whether you are ready."),
    "completion": ("completion", "Install the completion of commands for your shell."),
}


class _Verbs(click.Group):
    """A group that knows its verbs by name, so that ``config`` doesn't load what ``train`` imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f"{__name__}.{_VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if close := difflib.get_close_matches(args[0], _VERBS) if args[0] not in _VERBS else []:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, close))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in _VERBS.items()])


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 a worker failed; 2 bad usage, cluster or input; 3 not all tasks arrived in "
    "time; 130 interrupted; 128 + a signal: saved because of it.",
)
@click.version_option(__version__, prog_name="tfmuster", message="%(prog)s %(version)s")
def cli() -> None:
    """TensorFlow on several machines, without knowing what TF_CONFIG is."""


@speaking("shell")
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code: the value that the verb returns, or 0.

    Errors that tfmuster raises on purpose are printed to standard error as text. Others keep their traceback,
    because they are defects.
    """
    _open_standard_files()
    try:
        result = cli.main(args=argv, prog_name="tfmuster", standalone_mode=False)
    except TfmusterError as error:
        if ERROR_FILE_VARIABLE in os.environ:
            from ..tracking.failure.error_file import leave_note

            leave_note(error)
        control = sys.modules.get("tfmuster.rendezvous.task.control_channel")
        if control is not None and (channel := control.ControlChannel.current()):
            # Send the other tasks the cause, not only the exit code.
            channel.report_exception(error)
        click.echo(f"Error: {safe_text(str(error))}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. The interpreter's last flush must not fail, either.
        sys.stdout = None  # type: ignore[assignment]
        return EXIT_DONE
    return result if isinstance(result, int) else EXIT_DONE


def _open_standard_files() -> None:
    """Open /dev/null in place of standard files that are closed, before another file gets their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
