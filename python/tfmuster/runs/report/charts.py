"""Draw the charts of a report as SVG: curves of the metrics, and a timeline of the tasks.

The colors are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which readers with any kind of color
vision can tell apart. Training and validation also differ in line style and marker, and bars have labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from xml.etree.ElementTree import Element

from ..times import local_time
from .elements import element

_WIDTH, _HEIGHT = 420.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 12.0, 10.0, 34.0
_COLOURS = {"training": "#0072B2", "validation": "#D55E00"}
_PHASES = {
    "starting": "#999999",
    "waiting": "#E69F00",
    "training": "#0072B2",
    "trained": "#56B4E9",
    "testing": "#009E73",
    "running": "#CC79A7",
}
_LARGEST = 1e300
_BAR, _GAP, _LABELS, _END = 22.0, 10.0, 110.0, 60.0


def curves(history: Mapping[str, Sequence[float]]) -> list[Element]:
    """Draw a chart for each metric, with its training and validation curves."""
    names = dict.fromkeys(name.removeprefix("val_") for name in history)
    metrics = sorted(names, key=lambda name: (name != "loss", name == "images_per_second"))
    return [
        _curve(metric, {"training": history.get(metric, ()), "validation": history.get(f"val_{metric}", ())})
        for metric in metrics
    ]


def _curve(metric: str, series: Mapping[str, Sequence[float]]) -> Element:
    shown = {name: values for name, values in series.items() if len(values)}
    finite = [value for values in shown.values() for value in values if _is_drawn(value)] or [0.0]
    epochs = max(len(values) for values in shown.values())
    low, high, ticks = _scale(min(finite), max(finite))

    def x(epoch: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (epoch - 1) / max(1, epochs - 1)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = [element("title", f"{metric} by epoch")]
    for tick in ticks:
        parts.append(_line(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick), class_="grid"))
        parts.append(_text(f"{tick:.6g}", _LEFT - 6, y(tick) + 4, text_anchor="end"))
    for epoch in _whole_ticks(epochs):
        parts.append(_text(str(epoch), x(epoch), _HEIGHT - _BOTTOM + 16, text_anchor="middle"))
    parts.append(_text("epoch", (_LEFT + _WIDTH) / 2, _HEIGHT - 4, text_anchor="middle"))
    for name, values in shown.items():
        points = [(x(i), y(v)) for i, v in enumerate(values, 1) if _is_drawn(v)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        dash = {} if name == "training" else {"stroke_dasharray": "6 3"}
        parts.append(
            element("polyline", points=path, fill="none", stroke=_COLOURS[name], stroke_width=2, **dash)
        )
        if len(points) <= 50:
            parts += [_marker(name, px, py) for px, py in points]
    picture = _svg(_WIDTH, _HEIGHT, parts, f"{metric}: {_in_words(shown)}")
    legend = element("figcaption", element("strong", metric), " ", *_legend(shown))
    return element("figure", legend, picture, class_="curve")


def _is_drawn(value: float) -> bool:
    """Whether a value has a place on an axis, whose length is a number as well."""
    return abs(value) < _LARGEST


def _in_words(shown: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(
        f"{name} from {values[0]:.4g} to {values[-1]:.4g} in {len(values)} epochs"
        for name, values in shown.items()
    )


def _legend(shown: Mapping[str, Sequence[float]]) -> list[Element]:
    return [
        element("span", f" {'●' if name == 'training' else '▲'} {name} ", style=f"color:{_COLOURS[name]}")
        for name in shown
    ]


def _marker(name: str, x: float, y: float) -> Element:
    if name == "training":
        return element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, fill=_COLOURS[name])
    corners = f"{x:.1f},{y - 4:.1f} {x - 4:.1f},{y + 3:.1f} {x + 4:.1f},{y + 3:.1f}"
    return element("polygon", points=corners, fill=_COLOURS[name])


def timeline(events: Mapping[str, Sequence[Mapping[str, Any]]], end: float) -> Element | None:
    """Draw a row for each task with its phases over time; None if there are no events.

    Parameters
    ----------
    events : mapping
        For each task, events with ``time`` (seconds since the epoch) and ``phase``, in order.
    end : float
        End of the time axis, in seconds since the epoch.
    """
    times = [event["time"] for row in events.values() for event in row]
    if not times:
        return None
    begin, end = float(min(times)), float(max(end, *times))
    seconds = max(end - begin, 1e-3)
    height = len(events) * (_BAR + _GAP) + 30
    width = 860.0

    def x(time: float) -> float:
        return _LABELS + (width - _LABELS - _END) * (time - begin) / seconds

    parts = [element("title", "What each task did when")]
    for row, (task, told) in enumerate(events.items()):
        top = row * (_BAR + _GAP) + 4
        parts.append(_text(task, 0, top + 15))
        for event, after in zip(told, [*told[1:], None], strict=True):
            until = after["time"] if after else end
            parts += _phase(event, x(event["time"]), x(until), top, until - event["time"], last=after is None)
    for tick in _scale(0.0, seconds)[2]:
        if tick <= seconds:
            parts.append(_text(f"{tick:.6g} s", x(begin + tick), height - 8, text_anchor="middle"))
    began = local_time(datetime.fromtimestamp(begin, timezone.utc).isoformat())
    legend = element("figcaption", f"Seconds since {began}. ", *_phase_legend(events))
    picture = _svg(width, height, parts, "Timeline of the tasks")
    return element("figure", legend, picture, class_="timeline")


def _phase_legend(events: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Element]:
    """Explain the colors of the phases that occur."""
    found = {str(event["phase"]) for row in events.values() for event in row}
    found = {"starting" if phase == "started" else phase for phase in found}
    return [
        element("span", element("span", " ", class_="swatch", style=f"background:{colour}"), f" {phase} ")
        for phase, colour in _PHASES.items()
        if phase in found
    ]


def _phase(
    event: Mapping[str, Any], start: float, stop: float, top: float, seconds: float, *, last: bool
) -> list[Element]:
    phase = str(event["phase"])
    if phase in ("done", "failed", "ended"):
        colour = "#D55E00" if phase == "failed" else "#333333"
        mark = _line(start, top - 2, start, top + _BAR + 2, stroke=colour, stroke_width=3)
        mark.append(element("title", phase))
        return [mark, _text(phase, start + 5, top + 15)] if last else [mark]
    if phase == "started":
        return [
            _line(start, top - 3, start, top + _BAR + 3, stroke="#000000", stroke_width=1.5),
            _bar("starting", start, stop, top, seconds),
        ]
    parts = [_bar(phase, start, stop, top, seconds)]
    if stop - start > 8.0 * len(phase):
        parts.append(_text(phase, start + 4, top + 15, class_="phase"))
    return parts


def _bar(phase: str, start: float, stop: float, top: float, seconds: float) -> Element:
    return element(
        "rect",
        element("title", f"{phase}, {seconds:.1f} s"),
        x=f"{start:.1f}",
        y=f"{top:.1f}",
        width=f"{max(stop - start, 0.5):.1f}",
        height=_BAR,
        fill=_PHASES.get(phase, "#CC79A7"),
    )


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


def _whole_ticks(epochs: int) -> list[int]:
    step = max(1, math.ceil(epochs / 8))
    return list(range(1, epochs + 1, step))


def _svg(width: float, height: float, parts: list[Element], label: str) -> Element:
    return element(
        "svg", *parts, viewBox=f"0 0 {width:g} {height:g}", width=f"{width:g}", role="img", aria_label=label
    )


def _line(x1: float, y1: float, x2: float, y2: float, **more: object) -> Element:
    return element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", **more)


def _text(text: str, x: float, y: float, **more: object) -> Element:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", **more)
