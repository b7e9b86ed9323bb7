"""Compute the charts of a report: curves of the metrics, and a timeline of the tasks.

This module says where everything is; the template ``charts.svg`` draws it. The colors are those of Okabe
and Ito (https://jfly.uni-koeln.de/color/), which readers with any kind of color vision can tell apart.
Training and validation also differ in line style and marker, and bars have labels.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ...record.history import History
from ..summary import local_time

_LARGEST = 1e300
_COLORS = {"training": "#0072B2", "validation": "#D55E00"}
#: Colors of runs, in the order of their names.
_RUN_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_PHASES = {
    "importing": "#BBBBBB",
    "starting": "#999999",
    "waiting": "#E69F00",
    "joined": "#777777",
    "building": "#5B6770",
    "tracing": "#882255",
    "training": "#0072B2",
    "trained": "#56B4E9",
    "evaluating": "#44AA99",
    "testing": "#009E73",
    "serving": "#AA4499",
    "running": "#CC79A7",
}
_OTHER_PHASE = "#CC79A7"
#: The color of the text, which is another one on a dark page.
_TEXT = "currentColor"
#: What ends a task is a mark, not a bar; so is each start.
_ENDS = {"done": _TEXT, "failed": "#D55E00", "lost": "#D55E00", "ended": _TEXT, "preempted": _TEXT}
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 56, 12, 10, 34
#: Columns of pixels of a curve, and how many epochs it has without being thinned out: four for each column.
_COLUMNS = _WIDTH - _LEFT - _RIGHT
_MOST_POINTS = 4 * _COLUMNS
_VALUE = operator.itemgetter(1)
_BAR, _GAP, _LABELS, _END = 22, 10, 110, 60


class Tick(NamedTuple):
    """A place on an axis and its label."""

    at: float
    text: str


class CurveLine(NamedTuple):
    """A metric in training or in validation."""

    name: str
    color: str
    points: list[tuple[float, float]]

    @property
    def is_training(self) -> bool:
        """Whether it is a metric in training."""
        return not self.name.endswith("validation")


@dataclass(frozen=True)
class Curve:
    """The chart of a metric, in pixels."""

    metric: str
    label: str
    lines: list[CurveLine]
    values: list[Tick]
    epochs: list[Tick]
    #: Where the best epoch is, if it is known.
    best: float | None
    width: int = _WIDTH
    height: int = 230
    left: int = _LEFT

    @property
    def right(self) -> int:
        """The end of the horizontal axis."""
        return self.width - _RIGHT

    @property
    def bottom(self) -> int:
        """The horizontal axis."""
        return self.height - _BOTTOM


def curves(history: History, best: int | None = None) -> list[Curve]:
    """Compute a chart for each metric, with its training and validation curves.

    `best` is the place of the best epoch in the run, from 0.
    """
    series = {name: column.values for name, column in history.columns.items()}
    return [
        _curve(
            metric, {"training": series.get(metric, ()), "validation": series.get(f"val_{metric}", ())}, best
        )
        for metric in _metrics(series)
    ]


def _metrics(names: Iterable[str]) -> list[str]:
    """Return the metrics of a history, in the order of their charts."""
    metrics = dict.fromkeys(name.removeprefix("val_") for name in names)
    return sorted(metrics, key=lambda name: (name != "loss", name == "images_per_second"))


def overlaid_curves(histories: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Curve]:
    """Compute a chart for each metric, with the curves of several runs by their names."""
    colors: dict[str, str] = {}
    for run, color in zip(histories, itertools.cycle(_RUN_COLORS), strict=False):
        colors |= {run: color, f"{run}, validation": color}
    charts = []
    for metric in _metrics(itertools.chain(*histories.values())):
        series: dict[str, Sequence[float]] = {}
        for run, history in histories.items():
            series |= {run: history.get(metric, ()), f"{run}, validation": history.get(f"val_{metric}", ())}
        charts.append(_curve(metric, series, colors=colors))
    return charts


def _curve(
    metric: str,
    series: Mapping[str, Sequence[float]],
    best: int | None = None,
    colors: Mapping[str, str] = _COLORS,
) -> Curve:
    shown = {name: values for name, values in series.items() if len(values)}
    points = {name: list(_points(values)) for name, values in shown.items()}
    finite = [value for drawn in points.values() for _, value in drawn] or [0.0]
    epochs = max(len(values) for values in shown.values())
    low, high, ticks = _scale(min(finite), max(finite))

    def x(epoch: float) -> float:
        return _LEFT + _COLUMNS * (epoch - 1) / max(1, epochs - 1)

    def y(value: float) -> float:
        return _TOP + (Curve.height - _TOP - _BOTTOM) * (high - value) / (high - low)

    lines = [
        CurveLine(name, colors[name], [(x(epoch), y(value)) for epoch, value in drawn])
        for name, drawn in points.items()
    ]
    return Curve(
        metric,
        f"{metric}: {_in_words(shown)}",
        lines,
        values=[Tick(y(tick), f"{tick:.6g}") for tick in ticks],
        epochs=[Tick(x(epoch), str(epoch)) for epoch in range(1, epochs + 1, math.ceil(epochs / 8))],
        best=None if best is None else x(best + 1),
    )


def _points(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Yield the epochs to draw, from 1, with their values.

    Of a long training, they are the first, lowest, highest and last one of each column of pixels. A line
    through these looks like one through all (M4, https://doi.org/10.14778/2732951.2732953).
    """
    step = math.ceil(len(values) / _COLUMNS) if len(values) > _MOST_POINTS else _MOST_POINTS
    for begin in range(0, len(values), step):
        drawn = [
            (epoch, value)
            for epoch, value in enumerate(values[begin : begin + step], begin + 1)
            # The length of an axis is a number as well.
            if abs(value) < _LARGEST
        ]
        if len(values) > _MOST_POINTS and drawn:
            least, most = min(drawn, key=_VALUE), max(drawn, key=_VALUE)
            drawn = sorted({drawn[0], least, most, drawn[-1]})
        yield from drawn


def _in_words(shown: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(" ".join([name, *_course(values)]) for name, values in shown.items())


def _course(values: Sequence[float]) -> list[str]:
    """Say how a metric began and ended, without the epochs that lack it."""
    count = len(values) - sum(map(math.isnan, values))
    if not count:
        return []
    first, last = (next(itertools.filterfalse(math.isnan, each)) for each in (values, reversed(values)))
    return [f"from {first:.4g} to {last:.4g} in {count} epochs"]


class Bar(NamedTuple):
    """A phase of a task."""

    phase: str
    color: str
    start: float
    width: float
    seconds: float
    has_room: bool


class Mark(NamedTuple):
    """A start or an end of a task."""

    phase: str
    color: str
    at: float
    width: float


class TimelineRow(NamedTuple):
    """What a task did; `end` is the mark that its row ends with, if its last process has ended."""

    task: str
    top: int
    bars: list[Bar]
    marks: list[Mark]
    end: Mark | None


@dataclass(frozen=True)
class Timeline:
    """The chart of all tasks' phases, in pixels."""

    begin: str | None
    legend: dict[str, str]
    marks: dict[str, str]
    rows: list[TimelineRow]
    ticks: list[Tick]
    height: int
    width: int = 860
    bar: int = _BAR


def timeline(events: Mapping[str, Sequence[Mapping[str, Any]]], end: float) -> Timeline | None:
    """Compute a row for each task with its phases over time; None if there are no events.

    `events` has, for each task, ``time`` (seconds since the epoch) and ``phase``, in order. `end` is the end
    of the time axis, in seconds since the epoch.
    """
    times = [event["time"] for row in events.values() for event in row]
    if not times:
        return None
    begin, end = float(min(times)), float(max(end, *times))
    seconds = max(end - begin, 1e-3)

    def x(time: float) -> float:
        return _LABELS + (Timeline.width - _LABELS - _END) * (time - begin) / seconds

    rows = []
    for number, (task, changes) in enumerate(events.items()):
        bars, marks = [], []
        # Not strict: a task has no events if its file was cut short.
        for event, after in zip(changes, [*changes[1:], None], strict=False):
            phase, start = str(event["phase"]), x(event["time"])
            until = after["time"] if after else end
            if phase in _ENDS:
                marks.append(Mark(phase, _ENDS[phase], start, 3))
                continue
            if phase == "started":
                marks.append(Mark(phase, _TEXT, start, 1.5))
            bars.append(_bar(phase, start, x(until), until - event["time"]))
        ended = bool(changes) and str(changes[-1]["phase"]) in _ENDS
        rows.append(TimelineRow(task, number * (_BAR + _GAP) + 4, bars, marks, marks[-1] if ended else None))
    return Timeline(
        local_time(datetime.fromtimestamp(begin, timezone.utc).isoformat()),
        *_legend(events),
        rows,
        [Tick(x(begin + tick), f"{tick:.6g}") for tick in _scale(0.0, seconds)[2] if tick <= seconds],
        height=len(events) * (_BAR + _GAP) + 30,
    )


def _bar(phase: str, start: float, stop: float, seconds: float) -> Bar:
    shown = "starting" if phase == "started" else phase
    has_room = phase != "started" and stop - start > 8.0 * len(phase)
    color = _PHASES.get(shown, _OTHER_PHASE)
    return Bar(shown, color, start, max(stop - start, 0.5), seconds, has_room)


def _legend(events: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the colors of the phases and of the marks that occur."""
    occur = dict.fromkeys(str(event["phase"]) for row in events.values() for event in row)
    # A task that has started is starting.
    phases = {**occur, **({"starting": None} if "started" in occur else {})}
    known = {phase: color for phase, color in _PHASES.items() if phase in phases}
    marks = {"started": _TEXT, **_ENDS}
    others = {phase: _OTHER_PHASE for phase in phases if phase not in _PHASES and phase not in marks}
    return {**known, **others}, {mark: color for mark, color in marks.items() if mark in occur}


def _scale(low: float, high: float) -> tuple[float, float, list[float]]:
    """Return rounded limits of an axis, and four to eight ticks."""
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 5
    unit = float(10 ** math.floor(math.log10(raw)))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [round(step * i, 12) for i in range(first, last + 1)]
    return ticks[0], ticks[-1], ticks
