"""Read rows of folders of images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import Chunk, Columns, bad_file

#: What TensorFlow writes in front of the message of an operation, and behind it.
_FUNCTION = re.compile(r"^\{\{.*?\}\} | \[Op:.*")
_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif")


class ImageRows:
    """Images in a folder with one folder for each class; make it with :func:`image_rows`."""

    def __init__(self, size: tuple[int, int], channels: int) -> None:
        self.size, self.channels = size, channels
        self.classes: list[str] = []

    def chunks(self, paths: Sequence[str]) -> list[Chunk]:
        """List the images of each class. Each is a chunk."""
        chunks = []
        for folder in paths:
            classes = sorted(entry.name for entry in Path(folder).iterdir() if entry.is_dir())
            self.classes = self.classes or classes
            for name in classes:
                label = self.classes.index(name) if name in self.classes else None
                images = sorted(p for p in Path(folder, name).iterdir() if p.suffix.lower() in _IMAGES)
                if label is None or not images:
                    raise bad_file(
                        "Every class must have a folder with images.",
                        str(Path(folder, name)),
                        "no-images",
                        found="no images" if not images else f"a class beside {', '.join(self.classes)}",
                        fix="remove the folder, or put images into it: " + ", ".join(_IMAGES),
                    )
                chunks += [Chunk(str(path), 1, 0, label) for path in images]
        return chunks

    def read(self, chunk: Chunk) -> Columns:
        """Read, decode, and resize an image."""
        import tensorflow as tf

        try:
            image = tf.io.decode_image(
                tf.io.read_file(chunk.path), channels=self.channels, expand_animations=False
            )
            image = tf.image.resize(image, self.size)
        except (tf.errors.OpError, ValueError) as error:
            raise bad_file(
                "Every image must be readable.",
                chunk.path,
                "unreadable-image",
                found=_FUNCTION.sub("", str(error).splitlines()[0])[:200],
                fix="replace the image or remove it",
            ) from error
        return image.numpy()[None], np.array([chunk.where], np.int32)

    def finish(self, columns: Columns) -> Any:
        """Return images and labels."""
        return columns


def image_rows(size: tuple[int, int], *, channels: int = 3) -> ImageRows:
    """Make a reader of folders of images, with one folder for each class in them.

    Parameters
    ----------
    size : (int, int)
        Height and width to which each image is resized (bilinear).
    channels : int
        3 for colors, 1 for gray.

    Returns
    -------
    ImageRows
        A reader for :func:`file_batches`, whose ``files`` is the folder. ``x`` is float32 of shape (batch,
        height, width, channels), from 0 to 255; ``y`` is int32, the number of the class in sorted order.
    """
    height, width = size
    return ImageRows((int(height), int(width)), int(channels))
