"""Files at URLs: small ones of the same kind, made on this machine."""

from __future__ import annotations

import functools
import io
import os
import tarfile
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import keras
import numpy as np

from . import files, replace_everywhere
from .arrays import array_of
from .tables import table_of


def replace() -> None:
    """Replace what downloads: ``get_file``, ``urlretrieve``, and the readers of pandas."""
    stock_file, stock_retrieve = keras.utils.get_file, urllib.request.urlretrieve

    @functools.wraps(stock_file)
    def get_file(fname: Any = None, origin: Any = None, *args: Any, **kwargs: Any) -> Any:
        for checked in ("file_hash", "md5_hash", "hash_algorithm"):
            kwargs.pop(checked, None)
        return stock_file(fname or PurePosixPath(origin).name, made(origin).as_uri(), **kwargs)

    def urlretrieve(url: str, filename: Any = None, *args: Any, **kwargs: Any) -> Any:
        if url.startswith("http"):
            url = made(url).as_uri()
        return stock_retrieve(url, filename, *args, **kwargs)

    replace_everywhere(stock_file, get_file)
    urllib.request.urlretrieve = urlretrieve
    _replace_readers()


def _replace_readers() -> None:
    import pandas as pd

    stock = pd.read_csv

    @functools.wraps(stock)
    def read_csv(source: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(source, str | Path) and not Path(source).exists():
            source = made(str(source))
        return stock(source, *args, **kwargs)

    pd.read_csv = read_csv


def write(url: str, path: str) -> None:
    """Copy the stand-in of a URL to a path, or into the folder of the program."""
    put(Path(path or PurePosixPath(url.partition("?")[0]).name), made(url).read_bytes())


def put(path: Path, content: bytes) -> None:
    """Write a file that other processes may write and read at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(path)


def made(url: str) -> Path:
    """Return the path of the stand-in for a URL."""
    url = str(url).partition("?")[0]
    name = PurePosixPath(url).name
    path = Path(os.environ["PROGRAMS_DATA"], url.replace("://", "/").strip("/").replace(":", "_"))
    if not path.is_file():
        if (content := _content(url, name)) is None:
            raise files.NoStandInError(f"no stand-in for {url}")
        put(path, content)
    return path


def _content(url: str, name: str) -> bytes | None:
    rng = np.random.default_rng(6)
    lower = url.lower()
    if name.endswith((".zip", ".tgz", ".tar.gz", ".tar")):
        inside = _members(lower)
        return _archive(name, inside) if inside else None
    if name.endswith((".jpg", ".jpeg", ".png")):
        return files.picture(rng, 1, Path(name).suffix, 256)
    if numbers := array_of(lower):
        return numbers
    if table := table_of(lower):
        return table.encode()
    if "sarcasm" in lower:
        rows = [f'{{"article_link": "a", "headline": "{files.text(rng, 8, i % 2)}", "is_sarcastic": {i % 2}}}'
                for i in range(26000)]  # fmt: skip
        return ("[" + ",\n".join(rows) + "]").encode()
    if name.endswith(".txt"):
        return "\n".join(files.text(rng, 7) for _ in range(900)).encode()
    return None


def _archive(name: str, inside: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w") as archive:
            for path, content in inside.items():
                archive.writestr(zipfile.ZipInfo(path), content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w" if name.endswith(".tar") else "w:gz") as tar:
        for path, content in inside.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _both(root: str, first: str, second: str, names: Sequence[str], **options: Any) -> dict[str, bytes]:
    folders = [f"{root}{part}/{name}" for part in (first, second) for name in names]
    return files.classes(*folders, **options)


def _members(url: str) -> dict[str, bytes] | None:
    """Return the files of an archive, by their paths in it."""
    rng = np.random.default_rng(8)
    names: Sequence[str]
    if "flower_photos" in url:
        names = ("daisy", "dandelion", "roses", "sunflowers", "tulips")
        license_text = {"flower_photos/LICENSE.txt": b"none\n"}
        return files.classes(*(f"flower_photos/{name}" for name in names), rows=40) | license_text
    if "cats_and_dogs" in url:
        return _both("cats_and_dogs_filtered/", "train", "validation", ["cats", "dogs"])
    if "horse" in url:
        return files.classes("horses", "humans", rows=40, kind=".png")
    if "rps" in url:
        root = "rps-test-set" if "test" in url else "rps"
        return files.classes(*(f"{root}/{name}" for name in ("paper", "rock", "scissors")), kind=".png")
    if "kagglecatsanddogs" in url:
        return files.classes("PetImages/Cat", "PetImages/Dog", rows=60)
    if "food" in url:
        names = ["pizza", "steak"] if "pizza" in url else [f"food_{i}" for i in range(10)]
        return _both(PurePosixPath(url).name.removesuffix(".zip") + "/", "train", "test", names)
    if "happy-or-sad" in url:
        return files.classes("happy", "sad", rows=40, kind=".png")
    if "captcha" in url:
        letters = np.array(list("23456bcdefg"))
        names = ["".join(rng.choice(letters, 5)) for _ in range(240)]
        return {f"captcha_images_v2/{name}.png": files.picture(rng, 1, ".png") for name in names}
    if "lol_dataset" in url:
        places = [f"lol_dataset/{part}/{i}.png" for part in ("our485/low", "our485/high") for i in range(320)]
        places += [f"lol_dataset/eval15/{part}/{i}.png" for part in ("low", "high") for i in range(15)]
        return {place: files.picture(rng, 0, ".png", 280) for place in places}
    if "glove" in url:
        words = sorted({*files.WORDS, "unknown"})
        rows = [f"{word} {' '.join(f'{value:.3f}' for value in rng.normal(size=100))}" for word in words]
        return {"glove.6B.100d.txt": "\n".join(rows).encode()}
    if "news20" in url:
        topics = [f"20_newsgroup/topic.{i:02}" for i in range(20)]
        texts = files.classes(*topics, rows=12, kind=".txt")
        return {path.removesuffix(".txt"): b"\n" * 11 + text + b"\n" for path, text in texts.items()}
    if "aclimdb" in url:
        texts = _both("aclImdb/", "train", "test", ["neg", "pos"], rows=80, kind=".txt")
        others = files.classes("aclImdb/train/unsup", rows=4, kind=".txt")
        return texts | others | {"aclImdb/README": b"none\n"}
    if "stack_overflow" in url:
        return _both("", "train", "test", ["csharp", "java", "javascript", "python"], rows=60, kind=".txt")
    if "mini_speech_commands" in url:
        names = ("down", "go", "left", "no", "right", "stop", "up", "yes")
        return files.classes(*(f"mini_speech_commands/{name}" for name in names), rows=20, kind=".wav")
    if "spa-eng" in url or "fra-eng" in url:
        lines = files.pairs(rng, 700).encode()
        return {"spa-eng/spa.txt": lines, "spa.txt": lines} if "spa" in url else {"fra.txt": lines}
    if "images.tar" in url:
        return {f"images/pet_{i}.jpg": files.picture(rng, i) for i in range(1200)}
    if "annotations.tar" in url:
        return {f"annotations/trimaps/pet_{i}.png": files.picture(rng, i, ".trimap") for i in range(1200)}
    if "bsds500" in url.lower():
        places = [f"BSR/BSDS500/data/images/{part}/{i}.jpg" for part in ("train", "test") for i in range(40)]
        return {place: files.picture(rng, 0, size=320) for place in places}
    if "ml-1m" in url:
        ratings = [f"{u}::{m}::{r}::1" for u, m, r in rng.integers(1, [61, 81, 6], (3000, 3))]
        users = [f"{i}::{'FM'[i % 2]}::{25 + i % 3 * 10}::{i % 20}::48067" for i in range(1, 61)]
        movies = [f"{i}::Film {i} (1995)::{('Drama', 'Comedy|Romance')[i % 2]}" for i in range(1, 81)]
        tables = {"ratings": ratings, "users": users, "movies": movies}
        return {f"ml-1m/{name}.dat": "\n".join(lines).encode() for name, lines in tables.items()}
    if "ml-latest-small" in url:
        return {f"ml-latest-small/{name}.csv": str(table_of(name)).encode() for name in ("ratings", "movies")}
    if "petfinder" in url:
        return {"petfinder-mini/petfinder-mini.csv": str(table_of(url)).encode()}
    table = table_of(url)
    return {PurePosixPath(url).name.removesuffix(".zip"): table.encode()} if table else None
