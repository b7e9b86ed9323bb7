"""Options of ``tfmuster manifest kubernetes`` about what each pod gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from .value_types import Number, WholeNumber, refused

_Command = TypeVar("_Command", bound=Callable[..., Any])


def pod_options(command: _Command) -> _Command:
    """Add the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_pods(given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of these options as fields of a ``PodJob``."""
    volume = given["checkpoint_volume"]
    return {
        **given,
        "env": _pairs("--env", given["env"]),
        "volumes": _pairs("--volume", given["volumes"]),
        "checkpoint_volume": _pair("--checkpoint-volume", volume) if volume else None,
    }


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, value = _pair(option, text)
        if name in pairs:
            raise refused(option, "each name once", text)
        pairs[name] = value
    return pairs


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise refused(option, "a name, = and a value", text)
    return name, value


_OPTIONS = (
    click.option(
        "--env",
        "env",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a variable in every pod; repeatable. Default: none.",
    ),
    click.option(
        "--volume",
        "volumes",
        metavar="CLAIM=/PATH",
        multiple=True,
        help="Mount a PersistentVolumeClaim at a path; repeatable. Default: none.",
    ),
    click.option(
        "--checkpoint-volume",
        metavar="CLAIM=/PATH",
        help="Keep checkpoints on a PersistentVolumeClaim, and resume from them in place of "
        "evicted pods. Default: keep none.",
    ),
    click.option(
        "--max-restarts",
        metavar="N",
        type=WholeNumber(min=0),
        default=0,
        help="With --checkpoint-volume: restart all pods after a failure, at most N times. Default: 0.",
    ),
    click.option(
        "--grace",
        metavar="SECONDS",
        type=Number(0, min_open=True),
        default=30.0,
        show_default=True,
        help="Let a pod that is evicted take this long to write a checkpoint.",
    ),
    click.option(
        "--token-secret",
        metavar="SECRET",
        help="Take the job's password from the key `token` of a Secret. Default: use none.",
    ),
)
