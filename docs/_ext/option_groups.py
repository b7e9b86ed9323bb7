"""Write the options of a verb in the groups of its help text, for the pages of sphinx-click."""

from __future__ import annotations

from typing import Any

import click

from tfmuster.cli.parameters import group_of
from tfmuster.options.rows import GROUPS

_OPTION = ".. option:: "


def group_options(_: object, ctx: click.Context, lines: list[str]) -> None:
    """Sort the lines of a verb whose options all have a group; sphinx-click keeps their order."""
    options = [option for option in ctx.command.params if isinstance(option, click.Option)]
    if not (options and all(getattr(option, "group", "") for option in options)):
        return
    texts = [f"{_OPTION}{text}" for text in "\n".join(lines).split(_OPTION)[1:]]
    groups: dict[str, list[str]] = {heading: [] for heading in GROUPS}
    for option, text in zip(options, texts, strict=True):
        groups[group_of(option)] += text.splitlines()
    lines[:] = [line for heading in GROUPS for line in (f".. rubric:: {heading}", "", *groups[heading], "")]


def setup(app: Any) -> dict[str, bool]:
    """Let sphinx-click call `group_options`."""
    app.connect("sphinx-click-process-options", group_options)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
