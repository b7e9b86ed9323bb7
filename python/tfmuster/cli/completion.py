"""``tfmuster completion``: let a shell complete verbs, options and names of runs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..errors import TfmusterError
from .parameters import OneOf, option

#: Shell: the file in which a user sets it up, and the line there that loads the completion.
_STARTUP = {"bash": (".bashrc", "source {}"), "zsh": (".zshrc", "source {}")}
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", metavar="[bash|zsh|fish]", type=OneOf(_SHELLS), required=False)
@option("--print", "Print the script. Default: install it.", name="only_print")
def completion(*, shell: str | None, only_print: bool) -> None:
    """Install the completion of tfmuster's verbs, options and runs for your shell. Default: that in SHELL.

    \b
    tfmuster completion
    tfmuster completion zsh --print
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        raise click.UsageError(f"Name your shell: tfmuster completion {'|'.join(_SHELLS)}.")
    text = _script(shell)
    if only_print:
        click.echo(text)
        return
    try:
        for path in _install(shell, text):
            click.echo(f"Wrote {path}.")
    except OSError as error:
        raise TfmusterError(
            "The completion must be written to your home directory.",
            found=f"{error.filename}: {error.strerror}",
            fix=f'Load it yourself: eval "$(tfmuster completion {shell} --print)"',
        ) from error
    click.echo("Open a new shell, and press Tab after `tfmuster `.")


def _script(shell: str) -> str:
    """Return the script that click has for a shell."""
    from click.shell_completion import get_completion_class

    from . import cli

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "tfmuster", "_TFMUSTER_COMPLETE").source()


def _install(shell: str, text: str) -> list[Path]:
    """Write the script, and the line that loads it unless it is there. Return the files that have changed."""
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return [_written(config / "fish" / "completions" / "tfmuster.fish", text)]
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    script = _written(data / "tfmuster" / f"completion.{shell}", text)
    name, load = _STARTUP[shell]
    startup, line = home / name, load.format(f"'{script}'")
    before = startup.read_text(encoding="utf-8", errors="surrogateescape") if startup.exists() else ""
    if line in before.splitlines():
        return [script]
    begin = "" if not before or before.endswith("\n") else "\n"
    with startup.open("a", encoding="utf-8") as file:
        file.write(f"{begin}{line}\n")
    return [script, startup]


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path
