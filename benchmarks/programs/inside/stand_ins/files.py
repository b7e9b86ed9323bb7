"""Small files of the kinds that programs download: pictures, sounds, texts."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np

_TEXT = (
    "the a of and to in that film was good bad great dull story actor scene time music plot end very "
    "not all people they with for his her this from love king lord shall thou sea river light night day "
    "house road work child world hand heart eye word new old long little market price share firm game "
    "goal team match lose vote party law minister phone data web code list string array class method "
    "value loop print error "
)
WORDS = _TEXT.split()
#: Start and end of a translated sentence are the program's; these are its words.
_OTHER_TEXT = "el la un una perro gato casa libro come bebe corre grande rojo muy no si yo ella pan agua"
_FOREIGN = _OTHER_TEXT.split()


class NoStandInError(Exception):
    """A program asks for a file or a data set that has no stand-in."""


def text(rng: np.random.Generator, words: int, label: int = 0) -> str:
    """Return a text in which some words are those of its label."""
    drawn = rng.integers(0, len(WORDS), words)
    drawn[::5] = label % len(WORDS)
    return " ".join(WORDS[i] for i in drawn)


def pairs(rng: np.random.Generator, count: int) -> str:
    """Return lines of a sentence, a tab, and its translation."""
    lines = []
    for _ in range(count):
        foreign = " ".join(_FOREIGN[i] for i in rng.integers(0, len(_FOREIGN), rng.integers(2, 7)))
        english = text(rng, int(rng.integers(2, 6)))
        lines.append(f"{english.capitalize()}.\t{foreign.capitalize()}.\tby nobody")
    return "\n".join(lines) + "\n"


def picture(rng: np.random.Generator, label: int, suffix: str = ".jpg", size: int = 48) -> bytes:
    """Return an image file; trimaps have the values 1 to 3, other images a tint of their label."""
    from PIL import Image

    if suffix == ".trimap":
        pixels: Any = rng.integers(1, 4, (size, size), "uint8")
        suffix = ".png"
    else:
        pixels = rng.integers(0, 120, (size, size, 3), "uint8")
        pixels[..., label % 3] += np.uint8(100)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG" if suffix == ".png" else "JPEG")
    return buffer.getvalue()


def sound(rng: np.random.Generator, label: int) -> bytes:
    """Return a second of sound at 16 kHz."""
    times = np.arange(16000) / 16000
    samples = 8000 * np.sin(2 * np.pi * (200 + 60 * label) * times) + rng.normal(0, 500, 16000)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.astype("<i2").tobytes())
    return buffer.getvalue()


def classes(*folders: str, rows: int = 24, kind: str = ".jpg") -> dict[str, bytes]:
    """Return the files of folders that are classes, by their paths."""
    rng = np.random.default_rng(5)
    found = {}
    for label, folder in enumerate(folders):
        for i in range(rows):
            path = f"{folder}/{folder.rpartition('/')[2]}_{i}{kind}"
            if kind == ".txt":
                found[path] = text(rng, int(rng.integers(20, 80)), label).encode()
            else:
                found[path] = sound(rng, label) if kind == ".wav" else picture(rng, label, kind)
    return found
