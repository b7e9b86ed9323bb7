"""Bad input ends a job within seconds, with the file, row or worker; nothing runs afterwards."""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path

import numpy as np
import pytest

from support.clock import took_at_most
from support.launching import nothing_left, tfmuster, write
from support.paths import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def launched(tmp_path: Path, case: str, workers: int = 2, seconds: float = 10) -> tuple[str, str]:
    """What the workers write to stdout and stderr. The job must fail soon after its cause."""
    program = PROGRAMS / "bad_input.py"
    done = tfmuster("launch", "--all-output", "-n", workers, program, case, tmp_path, cwd=tmp_path, limit=120)
    ended = time.time()
    nothing_left(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "trained" not in done.stdout and "accepted" not in done.stdout, done.stdout
    causes = [float(line.split()[-1]) for line in done.stdout.splitlines() if "cause at" in line]
    assert causes and took_at_most(ended - min(causes), seconds), done.stdout + done.stderr
    return done.stdout, done.stderr


def write_bad_files(folder: Path) -> None:
    """Eight TFRecord files of which one is empty, and one bad file of each other kind."""
    import tensorflow as tf

    rng = np.random.default_rng(1)
    for number in range(8):
        with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as file:
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=rng.random(4))),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 3])),
            }
            file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        for label in "abc":
            path = folder / "images" / label / f"{number}.png"
            picture = rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)
            path.parent.mkdir(parents=True, exist_ok=True)
            tf.io.write_file(str(path), tf.io.encode_png(picture))
    (folder / "6.tfrecord").write_bytes(b"")
    (folder / "images" / "b" / "7.png").write_bytes(b"\x89PNG no picture")
    if importlib.util.find_spec("pyarrow"):
        import pyarrow as pa
        from pyarrow import parquet

        for number in range(3):
            values = ["x"] if number == 2 else [1.0]
            parquet.write_table(pa.table({"a": values, "y": [1]}), folder / f"{number}.parquet")


def test_bad_files_are_named(tmp_path: Path) -> None:
    write_bad_files(tmp_path)
    said, errors = launched(tmp_path, "files")
    for worker in ("worker 0", "worker 1"):
        assert f"{worker} | refused records empty-file {tmp_path / '6.tfrecord'}" in said
        if importlib.util.find_spec("pyarrow"):
            assert f"{worker} | refused parquet schema {tmp_path / '2.parquet'}" in said
    assert "Every image must be readable." in errors and "b/7.png" in errors


def test_an_unreadable_image_of_keras_own_folder_is_named(tmp_path: Path) -> None:
    write_bad_files(tmp_path)
    _, errors = launched(tmp_path, "folder")
    assert re.search(r"worker \d on .*: Every row of the data must be readable\.", errors), errors
    assert f"({tmp_path / 'images' / 'b' / '7.png'})" in errors
    # The traceback is in the worker's log, and the error is shown once.
    assert errors.count("b/7.png") == 1 and "Traceback" not in errors, errors


@pytest.mark.parametrize("workers", [2, 4])
def test_a_short_line_is_named(tmp_path: Path, workers: int) -> None:
    for number in range(8):
        lines = ["a,b,c,d,y", *("1,2,3,4,0" for _ in range(10))]
        lines[9] = "1,2,3,4" if number == 5 else lines[9]
        write(tmp_path, f"{number}.csv", *lines)
    _, errors = launched(tmp_path, "line", workers)
    assert "Every line of a CSV file must have" in errors and "5.csv, row 9)" in errors, errors


def test_a_batch_size_that_is_written_in_is_named(tmp_path: Path) -> None:
    _, errors = launched(tmp_path, "size", seconds=60)  # it builds the model, and traces its step twice
    assert "A step of the program must compute with the rows that it gets" in errors
    assert "found: 16 of 32 rows, and something of the size 32 (" in errors
    assert "tf.shape(x)[0]" in errors


def test_bad_rows_are_named(tmp_path: Path) -> None:
    said, errors = launched(tmp_path, "rows")
    for worker in ("worker 0", "worker 1"):
        assert f"{worker} | refused rows workers-differ" in said
        assert f"{worker} | refused generator generator-ended" in said
        assert f"{worker} | refused second pass generator-ended" in said
        assert f"{worker} | refused sizes batch-rows" in said
        assert f"{worker} | refused states whole-batch" in said
    assert "worker 1 on " in errors
    assert "A label must be one of the model's 3 classes, 0 to 2." in errors and "label 3" in errors


def test_a_generator_that_ends_early_on_one_worker_is_named(tmp_path: Path) -> None:
    _, errors = launched(tmp_path, "ends")
    assert "worker 1, whose data ended earlier." in errors or (
        "ended on this worker before those of worker 0" in errors and "worker 1 on " in errors
    ), errors
