"""All settings of a launch: the arguments of `launch()`, and what ``on`` and ``control`` take.

Each field is a row (:mod:`.rows`). From the rows come the options of ``tfmuster launch``, the classes below,
R's functions ``on_*()`` and ``launch_control()`` (``R/launch_options.R``, by ``make options``), the checks of
all values, the spellings in messages, and the command lines of jobs in the background and in batch systems.
To add a setting, add a row and use it; ``tests/python/unit/test_options.py`` tests all rows.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import fields

from ..words import Face
from .places import PLACES
from .rows import (
    COUNT,
    EVERYDAY,
    FAILURES,
    FLAG,
    FOLDER,
    LIMIT,
    NAME,
    NUMBER,
    OUTPUT,
    PROGRAM,
    SECONDS,
    SEED,
    SHARE,
    VARIABLES,
    VERIFICATION,
    WHERE,
    Option,
    Settings,
    option,
)

_SHELL: tuple[Face, ...] = ("shell",)
_PROGRAMS: tuple[Face, ...] = ("python", "r")


class Plain(Settings):
    """What `launch()` takes itself for the job."""

    workers: int | None = option(
        COUNT,
        group=EVERYDAY,
        default=None,
        flags=("-n", "-np", "--workers"),
        help="Start this many workers. Default: one per slot of the hosts, else 2.",
    )
    max_restarts: int = option(
        NUMBER,
        group=EVERYDAY,
        default=0,
        help="Restart the whole job from its last checkpoint after a failure, at most N times. Default: 0.",
    )
    seed: int | None = option(
        SEED,
        group=EVERYDAY,
        default=None,
        help="Seed the random number generators of every worker. Default: TFMUSTER_SEED, else drawn.",
    )
    name: str | None = option(
        NAME,
        group=EVERYDAY,
        default=None,
        metavar="NAME",
        help="Name the run. Default: the name of the script.",
    )
    run_dir: str | os.PathLike[str] | None = option(
        FOLDER, group=EVERYDAY, default=None, help="Use this run directory. Default: runs/<UTC time>-<name>."
    )


class Waiting(Settings):
    """How `launch()` waits for the job, which it takes itself, too."""

    quiet: bool = option(
        FLAG,
        group=EVERYDAY,
        default=False,
        flags=("-q", "--quiet"),
        help="Show only failures. Default: show the output of all workers.",
    )
    wait: bool = option(
        FLAG,
        group=EVERYDAY,
        default=True,
        flags=("--detach",),
        help="Return when the workers run; `tfmuster runs` follows them. Default: wait for the end.",
    )
    timings: bool = option(
        FLAG,
        group=OUTPUT,
        default=False,
        faces=_SHELL,
        help="Show at the end where the time went, and which workers waited. Default: do not.",
    )
    dry_run: bool = option(
        FLAG,
        group=OUTPUT,
        default=False,
        faces=_SHELL,
        help="For batch systems: print the script, and do not submit it. Default: submit it.",
    )


class Control(Settings):
    """Settings of `launch()` that few jobs need, for its argument ``control``."""

    ps: int = option(
        NUMBER,
        group=PROGRAM,
        default=0,
        help="Start this many parameter servers, which end with the workers. Default: 0.",
    )
    chief: bool = option(
        FLAG,
        group=PROGRAM,
        default=False,
        help="Start a chief besides the workers. Default: worker 0 is the chief.",
    )
    evaluator: bool = option(
        FLAG,
        group=PROGRAM,
        default=False,
        help="Start an evaluator, which ends with the workers. Default: start none.",
    )
    strategy: str = option(
        NAME,
        default="multi_worker_mirrored",
        faces=_PROGRAMS,
        help="Functions only: the name of the strategy that the function gets as its argument `strategy`.",
    )
    distribute: bool = option(
        FLAG,
        group=EVERYDAY,
        default=False,
        help="Train a program without a strategy on all workers, with its batch as the global batch. "
        "Default: refuse it.",
        more="It makes the same updates as in one process.",
    )
    scale_batch: bool = option(
        FLAG,
        group=PROGRAM,
        default=False,
        help="With {distribute}: multiply the batch size of fit() by the number of workers. Default: keep "
        "it.",
    )
    independent: bool = option(
        FLAG,
        group=PROGRAM,
        default=False,
        help="Let each worker train a model of its own. Default: refuse that.",
        more="By default, such a worker fails with a strategy error (reason `not-distributed`).",
    )
    allow_nested: bool = option(
        FLAG,
        group=PROGRAM,
        default=False,
        help="Let a worker of another job launch this one. Default: refuse that.",
        more="A program that launches itself would do so without end. The workers of the nested job can't "
        "launch another one.",
    )
    env: Mapping[str, str] = option(
        VARIABLES,
        group=PROGRAM,
        default={},
        metavar="NAME[=VALUE]",
        help="Set {a_variable} for every worker. {here}Default: none.",
    )
    gpus_per_worker: int | None = option(
        SHARE,
        group=WHERE,
        default=None,
        help="Show each worker this many GPUs; 0 hides all. Default: 1 if there are as many GPUs as "
        "workers, else all.",
    )
    only_chief: bool = option(
        FLAG, group=OUTPUT, default=False, help="Show only the output of the chief. Default: of all workers."
    )
    all_output: bool = option(
        FLAG,
        group=OUTPUT,
        default=False,
        help="Show each line of each worker. Default: show lines that all workers print alike once.",
        more="A line that only some workers print within a second is shown with their names.",
    )
    keras_compat: bool = option(
        FLAG,
        group=PROGRAM,
        default=True,
        flags=("--no-keras-compat",),
        help="{patch}. Default: patch it.",
    )
    verify: str | None = option(
        VERIFICATION,
        group=PROGRAM,
        default=None,
        metavar="auto|always|never",
        help="Compare the first step with that of one process: auto, if the program has code of its own, "
        "such as a layer or a loss; always; never. Default: TFMUSTER_VERIFY, else auto.",
        more="A job whose first step differs ends, and says what differs.",
    )
    start_timeout: float | None = option(
        SECONDS,
        group=FAILURES,
        default=None,
        help="Wait this long for all tasks to arrive. Default: TFMUSTER_START_TIMEOUT, else 60.",
    )
    stall_timeout: float | None = option(
        LIMIT,
        group=FAILURES,
        default=None,
        help="End the job if workers wait this long for one that makes no progress; 0: never. Default: "
        "TFMUSTER_STALL_TIMEOUT, else 300.",
        more="The error names the worker that they wait for.",
    )
    grace: float | None = option(
        SECONDS,
        group=FAILURES,
        default=None,
        help="Let workers take this long to write a checkpoint after a shutdown signal. Default: "
        "TFMUSTER_GRACE, else 30.",
        more="After that time, the job ends without a checkpoint. See {checkpoint_callback}.",
    )
    notice_command: str | None = option(
        NAME,
        group=FAILURES,
        default=None,
        metavar="COMMAND",
        help="Write a checkpoint and end the job when this shell command, run every 5 s, succeeds on a "
        "worker's machine, because its spot instance is about to be reclaimed. Default: none.",
        more="Workers run it during `fit` with checkpoints.",
    )


#: Where an option of this name is known, in the order of their documentation.
TABLE: tuple[type[Settings], ...] = (Plain, Waiting, Control, *PLACES)

_ROWS = sorted((row for settings in TABLE for row in settings.ROWS.values()), key=lambda row: len(row.faces))
#: All rows by name. Some classes have a row only for the command line.
ROWS: dict[str, Option] = {row.name: row for row in _ROWS}

#: What is not the same in the texts of all faces: for the command line, Python and R.
_PARTS = {
    "a_variable": ("a variable", "environment variables", "environment variables"),
    "here": ("Without =VALUE, its value here is used. Repeatable. ", "", ""),
    "a_file": ("a file or a folder", "files and folders", "files and folders"),
    "repeatable": ("; repeatable", "", ""),
    "patch": ("Do not patch Keras 3", *("Patch Keras 3, so that it works on several workers",) * 2),
    "checkpoint_callback": ("", ":func:`tfmuster.checkpoint_callback`", "[callback_checkpoint()]"),
    "data": (
        "",
        "numbers, text, arrays, pandas data, Keras models, and lists and dicts of them",
        "vectors, factors, data frames, matrices, lists of them, and models",
    ),
}


def text_of(row: Option, face: Face) -> str:
    """Return what a setting does, in the words of a face."""
    names = {name: _spelled(known, face) for name, known in ROWS.items()}
    place = ("shell", "python", "r").index(face)
    return row.text(face, {**names, **{name: texts[place] for name, texts in _PARTS.items()}})


def _spelled(row: Option, face: Face) -> str:
    return (row.flags[0] if row.flags else "") if face == "shell" else f"`{row.name}`"


def _document(settings: type[Settings]) -> None:
    """Add the settings to the documentation of a class."""
    lines = [settings.__doc__ or "", "", "Parameters", "----------"]
    types = {declared.name: declared.type for declared in fields(settings)}  # type: ignore[arg-type]
    for row in settings.public("python"):
        lines += [f"{row.name} : {types[row.name]}"]
        lines += textwrap.wrap(text_of(row, "python"), 100, initial_indent="    ", subsequent_indent="    ")
    settings.__doc__ = "\n".join(lines)


for _settings in TABLE[2:]:
    _document(_settings)
