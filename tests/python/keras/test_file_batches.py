"""Batches of files: every row once, the same for all numbers of workers; errors name file and row."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfmuster
from support.clock import in_time
from tfmuster.errors import DataError
from tfmuster.keras_compat.rows import attached_pipeline

ROWS = 240
X = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)
Y = np.arange(ROWS)


def write_records(folder: Path, files: int) -> Any:
    import tensorflow as tf

    for number in range(files):
        with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as file:
            for row in range(number, ROWS, files):
                feature = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=X[row])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[Y[row]])),
                }
                features = tf.train.Features(feature=feature)
                file.write(tf.train.Example(features=features).SerializeToString())
    features = {"x": tf.io.FixedLenFeature([3], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    return str(folder / "*.tfrecord"), tfmuster.tfrecord_rows(features, label="y")


def write_tables(folder: Path, files: int) -> Any:
    for number in range(files):
        lines = ["a,b,y,c", *(f"{X[r][0]},{X[r][1]},{Y[r]},{X[r][2]}" for r in range(number, ROWS, files))]
        (folder / f"{number}.csv").write_text("\n".join(lines) + "\n" * (number % 2))
    return str(folder / "*.csv"), tfmuster.csv_rows("y")


def write_parquet(folder: Path, files: int) -> Any:
    pa = pytest.importorskip("pyarrow", exc_type=ImportError)
    from pyarrow import parquet

    for number in range(files):
        x, y = X[number::files], Y[number::files]
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=16)
    return str(folder / "*.parquet"), tfmuster.parquet_rows("y")


def write_images(folder: Path, files: int) -> Any:
    import tensorflow as tf

    for number in range(24):
        path = folder / "images" / "abc"[number % 3] / f"{number:02}.png"
        picture = np.full((4, 5, 3), number, np.uint8)
        path.parent.mkdir(parents=True, exist_ok=True)
        tf.io.write_file(str(path), tf.io.encode_png(picture))
    return folder / "images", tfmuster.image_rows((2, 2))


WRITERS = [write_records, write_tables, write_parquet, write_images]


def read(dataset: Any) -> list[Any]:
    import tensorflow as tf

    return [tf.nest.map_structure(np.asarray, element) for element in dataset]


@pytest.mark.parametrize("files", [8, 7, 1])
@pytest.mark.parametrize("write", WRITERS)
def test_parts_make_up_the_batches_of_one_process(tmp_path: Path, write: Any, files: int) -> None:
    paths, reader = write(tmp_path, files)
    whole = tfmuster.file_batches(paths, reader, 50, seed=3)
    alone = read(whole)
    assert len(alone) == whole.steps == int(whole.cardinality())
    labels = np.concatenate([y for _, y in alone])
    rows = np.concatenate([x for x, _ in alone])
    if write is write_images:
        assert sorted(rows[:, 0, 0, 0]) == list(range(24))
        np.testing.assert_array_equal(labels, rows[:, 0, 0, 0] % 3)
    else:
        assert sorted(labels) == list(range(ROWS))
        np.testing.assert_array_equal(rows, X[labels.astype(int)])
    assert list(rows.ravel()) != sorted(rows.ravel())
    for workers in (2, 4):
        parts = [read(attached_pipeline(whole)(worker, workers)) for worker in range(workers)]
        for batch, *own in zip(alone, *parts, strict=True):
            assert {int(part.global_rows) for part in own} == {len(batch[0])}
            for index in (0, 1):
                joined = np.concatenate([part.data[index][: int(part.rows)] for part in own])
                assert joined.tobytes() == batch[index].tobytes()


def test_endless_batches_begin_anywhere(tmp_path: Path) -> None:
    paths, reader = write_tables(tmp_path, 7)
    data = tfmuster.file_batches(paths, reader, 50, seed=3, repeated=True, steps=12)
    everything = read(data)
    assert len(everything) == 12
    first, second = (np.concatenate([y for _, y in everything[5 * i : 5 * i + 5]]) for i in (0, 1))
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert list(first) != list(second)
    later = read(attached_pipeline(data)(None, 1, skip=7))
    assert [y.tolist() for _, y in later] == [y.tolist() for _, y in everything[7:]]
    every = read(attached_pipeline(data)(None, 1, every=(1, 3)))
    assert [y.tolist() for _, y in every] == [y.tolist() for _, y in everything[1::3]]
    other = tfmuster.file_batches(paths, reader, 50, seed=3, first_epoch=1)
    assert [y.tolist() for _, y in read(other)] == [y.tolist() for _, y in everything[5:10]]


def test_fit_does_not_warn_of_their_order(tmp_path: Path) -> None:
    import keras
    import tensorflow as tf

    tfmuster.strategy("default")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    files = tfmuster.file_batches(*write_tables(tmp_path, 2), 50, seed=1)
    own = tfmuster.own_rows(X, Y, batch_size=50, shuffle=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`shuffle=True` was passed")
        for data in (files, own, tfmuster.batches(X, Y, 50, seed=1)):
            model.fit(data, verbose=0)
        with pytest.raises(UserWarning, match="The Dataset is expected to already be shuffled"):
            model.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(50), verbose=0)


def short_line(folder: Path) -> Any:
    paths, reader = write_tables(folder, 8)
    text = (folder / "5.csv").read_text().splitlines()
    text[7] = "1,2,3"
    (folder / "5.csv").write_text("\n".join(text))
    return paths, reader, "5.csv", 7, "bad-line"


def no_number(folder: Path) -> Any:
    paths, reader = write_tables(folder, 2)
    with (folder / "1.csv").open("a") as file:
        file.write("\n1,2,NA?,3\n")
    return paths, reader, "1.csv", 121, "bad-line"


def other_names(folder: Path) -> Any:
    paths, reader = write_tables(folder, 2)
    (folder / "1.csv").write_text("a,b,z,c\n1,2,3,4\n")
    return paths, reader, "1.csv", None, "columns"


def empty_file(folder: Path) -> Any:
    paths, reader = write_records(folder, 8)
    (folder / "6.tfrecord").write_bytes(b"")
    return paths, reader, "6.tfrecord", None, "empty-file"


def only_names(folder: Path) -> Any:
    paths, reader = write_tables(folder, 8)
    (folder / "6.csv").write_text("a,b,y,c\n")
    return paths, reader, "6.csv", None, "empty-file"


def cut_off(folder: Path) -> Any:
    paths, reader = write_records(folder, 2)
    data = (folder / "1.tfrecord").read_bytes()
    (folder / "1.tfrecord").write_bytes(data[:-5])
    return paths, reader, "1.tfrecord", 120, "damaged-record"


def wrong_checksum(folder: Path) -> Any:
    paths, reader = write_records(folder, 2)
    data = bytearray((folder / "1.tfrecord").read_bytes())
    data[-10] ^= 1
    (folder / "1.tfrecord").write_bytes(data)
    return paths, reader, "1.tfrecord", 120, "damaged-record"


def other_feature(folder: Path) -> Any:
    """A record whose feature has another length, which TensorFlow finds when it parses a batch."""
    paths, reader = write_records(folder, 2)
    import tensorflow as tf

    records = [record.numpy() for record in tf.data.TFRecordDataset(str(folder / "1.tfrecord"))]
    wrong = tf.train.Example.FromString(records[16])
    wrong.features.feature["x"].float_list.value.append(1.0)
    with tf.io.TFRecordWriter(str(folder / "1.tfrecord")) as file:
        for number, record in enumerate(records):
            file.write(wrong.SerializeToString() if number == 16 else record)
    return paths, reader, "1.tfrecord", 17, "unreadable-row"


def other_schema(folder: Path) -> Any:
    paths, reader = write_parquet(folder, 3)
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": ["x"], "b": [1.0], "c": [2.0], "y": [1]}), folder / "2.parquet")
    return paths, reader, "2.parquet", None, "schema"


def no_parquet(folder: Path) -> Any:
    paths, reader = write_parquet(folder, 3)
    (folder / "2.parquet").write_text("a,b,c\n")
    return paths, reader, "2.parquet", None, "not-parquet"


def missing_values(folder: Path) -> Any:
    paths, reader = write_parquet(folder, 1)
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": [1.0, None], "y": [1, 2]}), folder / "0.parquet")
    return paths, reader, "0.parquet", 1, "bad-rows"


def unreadable_image(folder: Path) -> Any:
    paths, reader = write_images(folder, 1)
    (paths / "b" / "07.png").write_bytes(b"no picture")
    return paths, reader, "b/07.png", None, "unreadable-image"


def no_images(folder: Path) -> Any:
    paths, reader = write_images(folder, 1)
    (paths / "d").mkdir()
    return paths, reader, "images/d", None, "no-images"


BAD = [short_line, no_number, other_names, empty_file, only_names, cut_off, wrong_checksum]
BAD += [other_feature, other_schema, no_parquet, missing_values, unreadable_image, no_images]


@pytest.mark.parametrize("damage", BAD)
def test_a_bad_file_is_named(tmp_path: Path, damage: Any) -> None:
    import tensorflow as tf  # noqa: F401 - its import is no part of the time

    from tfmuster.keras_compat.data.data_errors import readers_errors

    paths, reader, name, row, reason = damage(tmp_path)
    begin = time.monotonic()
    with pytest.raises(DataError) as caught:
        data = tfmuster.file_batches(paths, reader, 40, seed=3)
        with readers_errors():
            for _ in data:
                pass
    assert in_time(begin, 10)
    error = caught.value
    assert error.fields["reason"] == reason
    assert error.fields["path"].endswith(name)
    assert error.fields["row"] == row
    assert name in str(error)
    assert error.fix


@pytest.mark.parametrize("files", ["no-such-*.csv", [], "no-such.csv"])
def test_missing_files_are_named(files: Any) -> None:
    with pytest.raises(DataError) as caught:
        tfmuster.file_batches(files, tfmuster.csv_rows("y"), 10, seed=1)
    assert caught.value.fields["reason"] in ("no-files", "missing-file")


def test_pyarrow_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(tfmuster.TfmusterError, match="pip install 'tfmuster\\[parquet\\]'"):
        tfmuster.file_batches(tmp_path / "a.parquet", tfmuster.parquet_rows("y"), 10, seed=1)
