"""Draw digits that look handwritten from random strokes, to train on without a download.

Each digit is a few strokes defined by control points. Every image moves these points at random and joins
them with Catmull-Rom splines. It then slants, rotates, scales, and shifts the shape, and draws it with a pen
of random width on speckled paper.

The same seed must give the same bytes on every machine. So the code uses only raw PCG64 words (the part of
numpy's random numbers that never changes, NEP 19) and operations that IEEE 754 rounds exactly: no sine, no
exponential, and no sum whose order depends on the processor.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import DataError

_SIZE = 28
_BOX = 20.0  # As in MNIST, digits fill a box of 20 x 20 in the middle of 28 x 28.
_DOTS_PER_SECTION = 8
_AT_ONCE = 256  # images drawn together: 256 x 784 floats stay in the processor's cache

_Stroke = tuple[tuple[float, float], ...]
_Floats = npt.NDArray[np.float32]

# For each digit, the ways in which people write it. Each way is a tuple of strokes, written as the points of
# an SVG polyline: x to the right, y down, both 0 to 1. A stroke that ends at its first point is a closed,
# smooth curve.
_WRITTEN: tuple[tuple[tuple[str, ...], ...], ...] = (
    (  # 0
        ("0.5,0 0.2,0.2 0.12,0.5 0.2,0.8 0.5,1 0.8,0.8 0.88,0.5 0.8,0.2 0.5,0",),
        ("0.65,0.05 0.3,0.1 0.12,0.5 0.3,0.92 0.65,0.95 0.88,0.5 0.75,0.12 0.4,0.02",),
    ),
    (  # 1
        ("0.52,0 0.5,0.5 0.48,1",),
        ("0.28,0.25 0.42,0.12 0.54,0", "0.54,0 0.53,0.5 0.52,1"),
        ("0.3,0.2 0.52,0", "0.52,0 0.52,0.5 0.5,1", "0.25,1 0.5,0.98 0.78,1"),
    ),
    (  # 2
        ("0.15,0.25 0.3,0.05 0.6,0.02 0.82,0.2 0.72,0.48 0.4,0.75 0.12,0.98", "0.12,0.98 0.5,0.94 0.9,0.98"),
        ("0.18,0.2 0.5,0.02 0.82,0.22 0.65,0.55 0.25,0.92 0.12,0.82 0.33,0.78 0.6,0.95 0.92,0.9",),
    ),
    (  # 3
        (
            "0.18,0.12 0.5,0.02 0.8,0.2 0.65,0.42 0.42,0.48",
            "0.42,0.48 0.75,0.58 0.85,0.78 0.55,0.98 0.15,0.88",
        ),
        (
            "0.15,0.05 0.5,0.05 0.8,0.04",
            "0.8,0.04 0.6,0.22 0.45,0.4",
            "0.45,0.4 0.82,0.55 0.8,0.85 0.45,0.98 0.15,0.88",
        ),
    ),
    (  # 4
        ("0.2,0.05 0.15,0.35 0.2,0.58 0.5,0.6 0.88,0.55", "0.78,0.02 0.75,0.5 0.7,1"),
        ("0.65,0.02 0.35,0.35 0.1,0.65", "0.1,0.65 0.5,0.65 0.92,0.63", "0.65,0.02 0.65,0.5 0.63,1"),
    ),
    (  # 5
        (
            "0.82,0.04 0.55,0.05 0.28,0.06",
            "0.28,0.06 0.24,0.25 0.22,0.45",
            "0.22,0.45 0.5,0.38 0.8,0.55 0.78,0.85 0.48,0.98 0.15,0.88",
        ),
        ("0.82,0.05 0.4,0.06 0.25,0.3 0.5,0.42 0.78,0.6 0.7,0.9 0.35,0.98 0.12,0.85",),
    ),
    (  # 6
        ("0.7,0.03 0.4,0.2 0.18,0.55 0.22,0.88 0.52,0.98 0.8,0.8 0.7,0.58 0.42,0.55 0.2,0.75",),
        ("0.5,0 0.28,0.4 0.2,0.75 0.45,0.98 0.75,0.85 0.72,0.65 0.48,0.6 0.25,0.78",),
    ),
    (  # 7
        ("0.12,0.06 0.5,0.07 0.86,0.05", "0.86,0.05 0.6,0.45 0.42,1"),
        ("0.12,0.06 0.5,0.07 0.86,0.05", "0.86,0.05 0.62,0.45 0.45,1", "0.35,0.5 0.58,0.49 0.82,0.48"),
        ("0.1,0.25 0.14,0.06 0.5,0.1 0.85,0.06", "0.85,0.06 0.65,0.5 0.55,1"),
    ),
    (  # 8
        ("0.5,0.48 0.22,0.28 0.5,0.02 0.78,0.25 0.5,0.48 0.2,0.75 0.5,0.98 0.8,0.75 0.5,0.48",),
        ("0.8,0.12 0.5,0.02 0.22,0.2 0.45,0.45 0.75,0.65 0.7,0.95 0.35,0.97 0.22,0.72 0.5,0.48 0.82,0.12",),
    ),
    (  # 9
        ("0.75,0.3 0.55,0.05 0.25,0.15 0.2,0.4 0.45,0.52 0.75,0.3", "0.78,0.1 0.76,0.5 0.68,1"),
        ("0.74,0.12 0.4,0.03 0.2,0.3 0.42,0.52 0.74,0.35", "0.76,0.1 0.78,0.6 0.6,0.92 0.22,0.95"),
    ),
)


def _stroke(points: str) -> _Stroke:
    return tuple((float(x), float(y)) for x, y in (point.split(",") for point in points.split()))


_GLYPHS = [[tuple(map(_stroke, way)) for way in ways] for ways in _WRITTEN]
_MOST_POINTS = max(sum(len(stroke) for stroke in glyph) for ways in _GLYPHS for glyph in ways)
_SHAPE_WORDS = 9  # random words per image for the affine map, the pen and the ink
_NOISE_WORDS = _SIZE * _SIZE // 8
_WORDS = 2 + _SHAPE_WORDS + 2 * _MOST_POINTS + _NOISE_WORDS


def draw_digits(count: int, seed: int = 0) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Draw random digits: images, uint8 (count, 28, 28), 0 (paper) to 255 (ink), and labels, uint8 (count,).

    The labels 0 to 9 are about equally frequent. A larger count with the same seed starts with the same
    digits. Raises DataError if ``count`` or ``seed`` is negative.
    """
    if count < 0 or seed < 0:
        raise DataError(
            "The number of digits and the seed must be at least 0.",
            found=f"{count} digits, seed {seed}",
            reason="negative",
        )
    words = np.random.PCG64(seed).random_raw(count * _WORDS).reshape(count, _WORDS)
    labels = (words[:, 0] >> np.uint64(32)) % np.uint64(10)
    images = np.empty((count, _SIZE, _SIZE), np.uint8)
    for digit, ways in enumerate(_GLYPHS):
        way = (words[:, 1] >> np.uint64(32)) % np.uint64(len(ways))
        for number, strokes in enumerate(ways):
            rows = np.flatnonzero((labels == digit) & (way == number))
            for start in range(0, len(rows), _AT_ONCE):
                some = rows[start : start + _AT_ONCE]
                images[some] = _draw(strokes, words[some, 2:])
    return images, labels.astype(np.uint8)


def _draw(strokes: tuple[_Stroke, ...], words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Draw one image per row of ``words``, all with the same strokes."""
    # 24 random bits are exact in float32.
    uniform = (words[:, :-_NOISE_WORDS] >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    shape, moves = uniform[:, :_SHAPE_WORDS], uniform[:, _SHAPE_WORDS:]
    noise = words[:, -_NOISE_WORDS:].astype("<u8").view(np.uint8).reshape(-1, _SIZE, _SIZE)

    x, y = _place(*_curves(strokes, moves), shape)
    nearest = np.full((len(words), _SIZE, _SIZE), np.inf, np.float32)
    pixels = np.arange(_SIZE, dtype=np.float32)
    for dot in range(x.shape[1]):
        across = pixels - x[:, dot, None]
        down = pixels - y[:, dot, None]
        np.minimum(nearest, (down * down)[:, :, None] + (across * across)[:, None, :], out=nearest)

    def between(column: int, low: float, high: float) -> _Floats:
        return _between(shape[:, column, None, None], low, high)

    radius, edge, strength = between(6, 0.6, 1.7), between(7, 0.8, 1.6), between(8, 0.55, 1.0)
    ink = np.clip((radius + edge - np.sqrt(nearest)) / edge, 0, 1) * strength
    speckle = _between(noise.astype(np.float32) / np.float32(255), -0.16, 0.16)
    images: npt.NDArray[np.uint8] = (np.clip(ink + speckle, 0, 1) * np.float32(255)).astype(np.uint8)
    return images


def _between(uniform: _Floats, low: float, high: float) -> _Floats:
    return np.float32(low) + uniform * np.float32(high - low)


def _curves(strokes: tuple[_Stroke, ...], moves: _Floats) -> tuple[_Floats, _Floats]:
    """Move each control point, and return dots along the strokes: x and y, each (images, dots)."""
    t = np.arange(_DOTS_PER_SECTION, dtype=np.float32) / np.float32(_DOTS_PER_SECTION)
    # Catmull-Rom weights of the four points around a section, which runs from the second to the third.
    half = np.float32(0.5)
    weights = (
        half * (((2 - t) * t - 1) * t),
        half * ((3 * t - 5) * t * t + 2),
        half * (((4 - 3 * t) * t + 1) * t),
        half * ((t - 1) * t * t),
    )
    coordinates = []
    for axis in range(2):
        dots, used = [], 0
        for stroke in strokes:
            closed = stroke[0] == stroke[-1]
            distinct = stroke[:-1] if closed else stroke
            move = moves[:, axis * _MOST_POINTS + used : axis * _MOST_POINTS + used + len(distinct)]
            points = np.array([point[axis] for point in distinct], np.float32) + _between(move, -0.075, 0.075)
            used += len(distinct)
            ends = (
                [points[:, -1:], points, points[:, :2]] if closed else [points[:, :1], points, points[:, -1:]]
            )
            padded = np.concatenate(ends, axis=1)
            sections = padded.shape[1] - 3
            dots += [
                weights[0] * padded[:, i, None]
                + weights[1] * padded[:, i + 1, None]
                + weights[2] * padded[:, i + 2, None]
                + weights[3] * padded[:, i + 3, None]
                for i in range(sections)
            ]
            dots.append(padded[:, -2:-1])
        coordinates.append(np.concatenate(dots, axis=1))
    return coordinates[0], coordinates[1]


def _place(x: _Floats, y: _Floats, shape: _Floats) -> tuple[_Floats, _Floats]:
    """Slant, scale, rotate, and shift dots from the unit square to pixels."""

    def between(column: int, low: float, high: float) -> _Floats:
        return _between(shape[:, column, None], low, high)

    half = np.float32(0.5)
    x, y = x - half, y - half
    x = x - between(0, -0.2, 0.5) * y
    x = x * between(1, 0.55, 1.0) * np.float32(_BOX)
    y = y * between(2, 0.75, 1.05) * np.float32(_BOX)
    # The tangent of half the angle gives an exact rotation without a sine: about 14 degrees either way.
    tangent = between(3, -0.125, 0.125)
    square = tangent * tangent
    cosine, sine = (1 - square) / (1 + square), (tangent + tangent) / (1 + square)
    middle = np.float32((_SIZE - 1) / 2)
    return (
        cosine * x - sine * y + middle + between(4, -2.5, 2.5),
        sine * x + cosine * y + middle + between(5, -2.5, 2.5),
    )
