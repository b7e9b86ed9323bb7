"""Compare runs: the settings that differ, the metrics side by side, and one page with the curves of all."""

from __future__ import annotations

import hashlib
import math
import operator
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import TfmusterError
from ...system.terminal_text import visible
from ..record.hidden_values import HIDDEN
from ..record.history import Column, History, read_history
from ..record.layout import CALL
from ..run import Run
from .facts import hardware, last_noted, notes_by_subject
from .listing import find_run
from .report import template, write_page
from .report.charts import overlaid_curves

#: Metrics of which the least value, or the greatest one, is the best. Of others, no value is called the best.
_LEAST = re.compile(
    r"loss|error|entropy|divergence|perplexity|hinge|huber|poisson|log_?cosh|false_|(?<![a-z])m(se|ae|ape|sle)"
)
_GREATEST = re.compile(
    r"acc|auc|precision|recall|sensitivity|specificity|iou|f1|fbeta|r2|similarity|per_second"
)

#: How the labels of environment variables begin.
_ENV = "env "


def compare_runs(
    runs: Sequence[Run | str | os.PathLike[str]], path: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Compare two or more runs.

    Parameters
    ----------
    runs : sequence of Run, str or path
        The runs, or what :func:`tfmuster.find_run` takes for each: its name, a part of its name, or its path.
    path : path, optional
        Write an HTML page to this file: both tables, and for each metric one chart with the curves of all
        runs. Default: write none.

    Returns
    -------
    dict
        ``runs``: the names of the runs, or their paths where names are equal. ``settings``: for each setting
        that differs, such as ``workers``, ``seed``, ``batch size`` or ``--lr`` of the program, a dict of the
        text of each run, None where a run has none. ``metrics``: for each metric a dict of the runs that have
        it. Each of these has ``final``, the value of the last epoch, ``best`` and ``best_epoch``. Epochs are
        counted from 1 over all calls of ``fit``. ``best`` is None if nobody knows whether the metric is to be
        small or large.

    Raises
    ------
    TfmusterError
        If there are fewer than two different runs, a run is not found, or the page can't be written.
    """
    found = [run if isinstance(run, Run) else find_run(run) for run in runs]
    found = list({run.path: run for run in found}.values())
    if len(found) < 2:
        raise TfmusterError(
            "Two or more runs must be given to compare them.",
            found=", ".join(run.name for run in found) or "none",
            fix="Give the names of two runs.",
        )
    equal = len({run.name for run in found}) < len(found)
    by_name = {str(run.path) if equal else run.name: run for run in found}
    histories = {name: read_history(run.path) for name, run in by_name.items()}
    comparison = {
        "runs": list(by_name),
        "settings": _differing({name: _settings(run) for name, run in by_name.items()}),
        "metrics": _side_by_side(histories),
    }
    if path is not None:
        curves = overlaid_curves({name: history.lists() for name, history in histories.items()})
        # A page may be sent to others.
        values = {"tables": tables(comparison, with_env=False), "curves": curves, **comparison}
        write_page(path, template("comparison.html").render(values), option="--html")
    return comparison


def tables(comparison: Mapping[str, Any], *, with_env: bool = True) -> dict[str, list[list[str]]]:
    """Return the rows of both tables as texts, each with the setting or metric first, then the runs.

    Without `with_env`, the values of environment variables are hidden.
    """
    names = comparison["runs"]
    settings = [
        [label, *(_shown(texts[name], with_env or not label.startswith(_ENV)) for name in names)]
        for label, texts in comparison["settings"].items()
    ]
    metrics = [
        [label, *(_figures(values.get(name)) for name in names)]
        for label, values in comparison["metrics"].items()
    ]
    return {"settings that differ": settings, "last value of each metric": metrics}


def _shown(text: str | None, is_shown: bool) -> str:
    return text or "" if is_shown or text is None else HIDDEN


def _figures(metric: Mapping[str, Any] | None) -> str:
    if metric is None:
        return ""
    best = metric["best"]
    return f"{metric['final']:.5g}" + (
        "" if best is None else f" (best {best:.5g}, epoch {metric['best_epoch']})"
    )


def _differing(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str | None]]:
    labels = dict.fromkeys(label for known in settings.values() for label in known)
    rows = {label: {name: known.get(label) for name, known in settings.items()} for label in labels}
    return {label: texts for label, texts in rows.items() if len(set(texts.values())) > 1}


def _settings(run: Run) -> dict[str, str]:
    """Return all that may explain why runs differ, as texts."""
    info, notes = run.info(), notes_by_subject(run)
    model, git = last_noted(run, "model summary"), info.get("git")
    machines = {text.partition(": ")[2] for text in hardware(run).values()}
    # The command of a function is a file of this package.
    is_function = (run.path / CALL).is_dir()
    program = {"function": info.get("name")} if is_function else _of_program(info.get("command", []))
    known = {
        **dict(program),
        **dict(_of_launch(info.get("launch", {}))),
        "seed": notes.get("seed", info.get("seed")),
        "batch size": notes.get("batch size"),
        "model": model.get("text"),
        # Other layers may have as many parameters.
        "layers": hashlib.sha256(str(model["value"]).encode()).hexdigest()[:8] if "value" in model else None,
        "hardware": "; ".join(sorted(machines)),
        "git commit": f"{git['commit'][:10]}{', with local changes' if git['changed'] else ''}"
        if git
        else None,
        **{f"version of {package}": version for package, version in info.get("versions", {}).items()},
    }
    return {
        visible(str(label)): visible(str(value)) for label, value in known.items() if value not in (None, "")
    }


def _of_launch(launch: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in launch.items():
        if isinstance(value, dict):
            yield from ((f"{name} {inner}", text) for inner, text in value.items())
        elif name not in ("name", "seed"):
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else value


def _of_program(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a program with their values, and its other words as ``program``."""
    words, others = list(command), []
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if not re.fullmatch(r"--?[A-Za-z][\w.-]*", option):
            others.append(word)
        elif equals:
            yield option, value
        else:
            # A number below zero is a value.
            has_value = bool(words) and not re.match(r"-+[A-Za-z]", words[0])
            yield option, words.pop(0) if has_value else "given"
    yield "program", " ".join(others)


def _side_by_side(histories: Mapping[str, History]) -> dict[str, dict[str, Any]]:
    metrics: dict[str, dict[str, Any]] = {}
    for run, history in histories.items():
        columns = {visible(name): column for name, column in history.columns.items()}
        for name in sorted(columns, key=lambda name: (name.removeprefix("val_") != "loss", name)):
            number, best = _best(name, columns[name])
            ((_, final),) = deque(columns[name].numbered(), maxlen=1)
            metrics.setdefault(name, {})[run] = {"final": final, "best": best, "best_epoch": number}
    return metrics


def _best(metric: str, column: Column) -> tuple[int | None, float | None]:
    """Return the number of the best epoch of a metric, the first of equal ones, and its value."""
    numbers = (value for value in column.numbered() if not math.isnan(value[1]))
    unknown = (None, None)
    if _LEAST.search(metric):
        return min(numbers, key=operator.itemgetter(1), default=unknown)
    return max(numbers, key=operator.itemgetter(1), default=unknown) if _GREATEST.search(metric) else unknown
