"""The row that a pipeline of tf.data can't read is found after the failure, with its file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.clock import in_time

FILES = 5


def write_texts(folder: Path) -> list[str]:
    """CSV files without names; the fourth has a short line."""
    for number in range(FILES):
        lines = ["1,2"] * 20
        if number == 3:
            lines[11] = "1"
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n")
    return [str(folder / f"{number}.csv") for number in range(FILES)]


def write_records(folder: Path, *, cut: bool = False) -> list[str]:
    """TFRecord files; the fourth has a record of another length, or is cut off in its last record."""
    import tensorflow as tf

    paths = [str(folder / f"{number}.tfrecord") for number in range(FILES)]
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as file:
            for row in range(20):
                wrong = not cut and (number, row) == (3, 11)
                file.write(tf.io.serialize_tensor(tf.zeros([3 if wrong else 2])).numpy())
    if cut:
        Path(paths[3]).write_bytes(Path(paths[3]).read_bytes()[:-5])
    return paths


def write_images(folder: Path) -> list[str]:
    """Images of two classes; one is no image."""
    import tensorflow as tf

    paths = [folder / label / f"{number}.png" for label in "ab" for number in range(8)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tf.io.encode_png(np.zeros((4, 4, 3), np.uint8)).numpy())
    (folder / "b" / "3.png").write_bytes(b"no picture")
    return [str(path) for path in paths]


def parse(record: Any) -> Any:
    import tensorflow as tf

    return tf.ensure_shape(tf.reshape(tf.io.parse_tensor(record, tf.float32), [2]), [2])


def decode(path: Any) -> Any:
    import tensorflow as tf

    return tf.io.decode_png(tf.io.read_file(path), 3)


def images_of_a_folder(folder: Path) -> Any:
    import keras

    write_images(folder)
    return keras.utils.image_dataset_from_directory(folder, image_size=(4, 4), verbose=False), "b/3.png", None


def listed_images(folder: Path) -> Any:
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(write_images(folder)).shuffle(16).repeat()
    return data.map(decode, num_parallel_calls=2).batch(4).prefetch(1), "b/3.png", None


def a_missing_image(folder: Path) -> Any:
    import tensorflow as tf

    paths = [*write_images(folder)[:3], str(folder / "gone.png")]
    return tf.data.Dataset.from_tensor_slices(paths).map(decode).batch(2), "gone.png", None


def records(folder: Path) -> Any:
    import tensorflow as tf

    return tf.data.TFRecordDataset(write_records(folder)).map(parse).shuffle(9).batch(4), "3.tfrecord", 12


def interleaved_records(folder: Path) -> Any:
    import tensorflow as tf

    names = tf.data.Dataset.from_tensor_slices(write_records(folder)).shuffle(5)
    return names.interleave(tf.data.TFRecordDataset).map(parse).batch(4), "3.tfrecord", 12


def records_that_are_cut_off(folder: Path) -> Any:
    import tensorflow as tf

    return tf.data.TFRecordDataset(write_records(folder, cut=True)).map(parse).batch(4), "3.tfrecord", 20


def tables(folder: Path) -> Any:
    import tensorflow as tf

    data = tf.data.experimental.make_csv_dataset(
        write_texts(folder),
        4,
        column_names=["a", "b"],
        column_defaults=[0.0, 0.0],
        header=False,
        num_epochs=1,
    )
    return data, "3.csv", 12


def a_python_function(folder: Path) -> Any:
    import tensorflow as tf

    def read(path: bytes) -> Any:
        rows = [line.split(b",") for line in Path(path.decode()).read_bytes().splitlines()]
        if any(len(row) != 2 for row in rows):
            raise ValueError("a line is short")
        return np.float32(len(rows))

    names = tf.data.Dataset.from_tensor_slices(write_texts(folder))
    return names.map(lambda path: tf.numpy_function(read, [path], tf.float32)).batch(2), "3.csv", None


def rows_in_memory(folder: Path) -> Any:
    import tensorflow as tf

    def invert(row: Any) -> Any:
        return tf.debugging.check_numerics(1 / tf.cast(row - 7, tf.float32), "no inverse")

    return tf.data.Dataset.range(40).map(invert).batch(4), None, 7


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "make",
    [
        images_of_a_folder,
        listed_images,
        a_missing_image,
        records,
        interleaved_records,
        records_that_are_cut_off,
        tables,
        a_python_function,
        rows_in_memory,
    ],
)
def test_the_row_and_its_file_are_named(tmp_path: Path, make: Any) -> None:
    import tensorflow as tf

    from tfmuster.keras_compat.data.unreadable_rows import name_unreadable

    data, name, row = make(tmp_path)
    with pytest.raises(tf.errors.OpError) as caught:
        for _ in data:
            pass
    begin = time.monotonic()
    error = name_unreadable(data, caught.value)
    assert in_time(begin, 5)
    assert error is not None
    assert (error.fields["row"], error.fields["reason"]) == (row, "unreadable-row")
    path = error.fields["path"]
    assert path is None if name is None else path == str(tmp_path / name)
    text = str(error)
    assert name is None or text.count(name) == 1
    assert row is None or f"row {row})" in text
    # Nothing of what TensorFlow writes for its own developers.
    assert not any(
        part in text for part in ("Iterator::", "function_node", "[Op:", "user-defined", "{{", "[[")
    )


@pytest.mark.timeout(200)
@pytest.mark.parametrize("damage", [b"", b"no picture", None])
def test_a_damaged_file_among_many_is_named_in_time(
    tmp_path: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To decode all of them again would take 20 s and more."""
    import tensorflow as tf

    from tfmuster.keras_compat.data import unreadable_rows
    from tfmuster.keras_compat.data.unreadable_rows import name_unreadable

    # The search gives up after that; how long it may take here depends on how busy the machine is.
    monkeypatch.setattr(unreadable_rows, "_SECONDS", 60)
    whole = tf.io.encode_jpeg(np.random.default_rng(1).integers(0, 255, (8, 8, 3), np.uint8)).numpy()
    paths = [str(tmp_path / f"{number}.jpg") for number in range(4000)]
    for path in paths:
        Path(path).write_bytes(whole)
    Path(paths[2900]).write_bytes(whole[:-70] if damage is None else damage)

    def slowly(image: Any) -> Any:
        time.sleep(0.01)
        return image

    def load(path: Any, label: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(path), 3)
        return tf.numpy_function(slowly, [image], tf.uint8), label

    data = tf.data.Dataset.from_tensor_slices((paths, [0] * len(paths))).shuffle(4000)
    error = tf.errors.InvalidArgumentError(None, None, "Input is empty.")
    begin = time.monotonic()
    named = name_unreadable(data.map(load).batch(8), error)
    assert in_time(begin, 6)
    assert named is not None and named.fields["path"] == paths[2900]


def test_what_can_be_read_is_not_blamed() -> None:
    import tensorflow as tf

    from tfmuster.keras_compat.data.unreadable_rows import name_unreadable

    started = []

    def generate() -> Any:
        started.append(1)
        yield 1

    of_model = tf.errors.InvalidArgumentError(None, None, "shapes differ")
    assert name_unreadable(tf.data.Dataset.range(9).map(lambda row: row + 1).batch(2), of_model) is None
    generator = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([]))
    assert name_unreadable(generator.map(lambda row: row / 0), of_model) is None
    assert not started
    lost = tf.errors.UnavailableError(None, None, "a worker has gone")
    assert name_unreadable(tf.data.Dataset.range(9).map(lambda row: row // 0), lost) is None
