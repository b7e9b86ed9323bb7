"""Training that is bound by its input: images per second of several workers against one process.

Usage: input.py [--workers 2] [--images 3072] [--repeats 3] [--kinds NAME,...] [--large GB] [--rows]

Run it with PYTHONPATH=tests/python, where the package support is. Every process has a core of its own, if
there are enough. The model is tiny; images are JPEG files of 400 x 400, decoded and resized to 96 x 96.

images      image_dataset_from_directory, as Keras reads it
records     TFRecordDataset(files).map(decode).shuffle().batch(), ordinary tf.data
file_batches images | records | parquet     tfmuster's own reader; Parquet has rows of 1,024 numbers

For each, a Markdown row, medians over the repetitions, for an epoch within a `fit` of several: rows per
second of one process on one core and of the workers, their ratio in the same repetition, the same for
tf-keras under TensorFlow's own auto-shard, and the most bytes that a worker read (/proc/self/io) over those
of the one process. The ratio of processor time says the same on a machine that is in use: that of the one
process, over the most of a worker.

With --large, instead: an epoch over so many GB of TFRecord and Parquet files, and the most memory that a
process of two workers needed. With --rows, instead: the processor time of a worker of two for each row of a
data set in memory that is shuffled and batched, without training.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from process_group import LEGACY, Group, answer_questions

KINDS = ("images", "records", "file_batches images", "file_batches records", "file_batches parquet")
SIDE, CLASSES, VALUES, BATCH = 96, 4, 1024, 64
#: An epoch is the difference of a `fit` with so many more epochs to one with one, divided by their number.
MORE = 2


def write_data(folder: Path, images: int) -> None:
    """JPEG files in folders, the same in TFRecord files, and rows of numbers in Parquet files."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    records = [tf.io.TFRecordWriter(str(folder / f"{n}.tfrecord")) for n in range(8)]
    for number in range(images):
        small = rng.integers(0, 255, (50, 50, 3), dtype=np.uint8)
        picture = tf.cast(tf.image.resize(small, (400, 400), "bicubic"), tf.uint8)
        data = tf.io.encode_jpeg(picture, quality=90).numpy()
        label = number % CLASSES
        path = folder / "images" / str(label) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        feature = {
            "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
            "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        features = tf.train.Features(feature=feature)
        records[number % 8].write(tf.train.Example(features=features).SerializeToString())
    for file in records:
        file.close()
    write_parquet(folder, 60 * images, rng)


def write_parquet(folder: Path, rows: int, rng: Any, files: int = 8) -> None:
    """Files with a list of numbers and a label in each row."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    for number in range(files):
        with parquet.ParquetWriter(
            folder / f"{number}.parquet",
            pa.schema([("x", pa.list_(pa.float32(), VALUES)), ("y", pa.int32())]),
        ) as file:
            for _ in range(max(1, rows // files // 512)):
                x = pa.FixedSizeListArray.from_arrays(rng.random(512 * VALUES, np.float32), VALUES)
                y = pa.array(rng.integers(0, CLASSES, 512, np.int32))
                file.write_table(pa.table({"x": x, "y": y}, file.schema))


def decode(data: Any) -> Any:
    import tensorflow as tf

    return tf.image.resize(tf.io.decode_jpeg(data, channels=3), (SIDE, SIDE))


def data_of(kind: str, folder: Path) -> tuple[Any, tuple[int, ...]]:
    """The input pipeline of this kind, and the shape of a row."""
    import tensorflow as tf

    features = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([], tf.int64)}
    image = (SIDE, SIDE, 3)
    if kind == "images":
        import keras

        made = keras.utils.image_dataset_from_directory(
            folder / "images", image_size=(SIDE, SIDE), batch_size=BATCH, seed=0, verbose=False
        )
        return made, image
    if kind == "records":

        def parse(record: Any) -> Any:
            row = tf.io.parse_single_example(record, features)
            return decode(row["x"]), row["y"]

        files = sorted(map(str, folder.glob("*.tfrecord")))
        rows = tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        return rows.shuffle(256, seed=0).batch(BATCH).prefetch(tf.data.AUTOTUNE), image
    import tfmuster

    if kind.endswith("images"):
        return tfmuster.file_batches(
            folder / "images", tfmuster.image_rows((SIDE, SIDE)), BATCH, seed=0
        ), image
    if kind == "file_batches records":

        def parsed(records: Any) -> Any:
            rows = tf.io.parse_example(tf.constant(records), features)
            return tf.map_fn(decode, rows["x"], fn_output_signature=tf.float32), rows["y"]

        return tfmuster.file_batches(
            str(folder / "*.tfrecord"), tfmuster.tfrecord_rows(parsed), BATCH, seed=0
        ), image
    if kind == "large records":

        def small(records: Any) -> Any:
            rows = tf.io.parse_example(tf.constant(records), features)
            values = tf.io.decode_raw(tf.strings.substr(rows["x"], 0, VALUES), tf.uint8)
            values = tf.reshape(values, [-1, VALUES])
            return tf.cast(values, tf.float32), rows["y"]

        return tfmuster.file_batches(
            str(folder / "*.tfrecord"), tfmuster.tfrecord_rows(small), BATCH, seed=0
        ), (VALUES,)
    reader = tfmuster.parquet_rows("y")
    return tfmuster.file_batches(str(folder / "*.parquet"), reader, BATCH, seed=0), (VALUES,)


def bytes_read() -> int:
    """Bytes that this process has read so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def process(folder: Path) -> None:
    """Train with the kinds that are asked for.

    Answers, for an epoch: seconds, bytes read, peak KB, processor time.
    """
    legacy = LEGACY in os.environ
    if legacy:
        import tensorflow as tf
        import tf_keras as keras

        strategy = (
            tf.distribute.MultiWorkerMirroredStrategy()
            if "TF_CONFIG" in os.environ
            else tf.distribute.get_strategy()
        )
    else:
        import tfmuster

        strategy = tfmuster.strategy("multi_worker_mirrored" if "TF_CONFIG" in os.environ else "default")
        import keras
    made: dict[str, Any] = {}

    def epoch(kind: str, more: int = MORE) -> list[float]:
        if kind not in made:
            made.clear()
            data, shape = data_of(kind, folder)
            with strategy.scope():
                pooled = keras.layers.AveragePooling2D(8) if len(shape) == 3 else keras.layers.Flatten()
                model = keras.Sequential(
                    [keras.Input(shape), pooled, keras.layers.Flatten(), keras.layers.Dense(CLASSES)]
                )
                model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            made[kind] = model, data
        model, data = made[kind]

        def fit(epochs: int) -> list[float]:
            begin, read, used = time.perf_counter(), bytes_read(), time.process_time()
            model.fit(data, epochs=epochs, verbose=0)
            return [time.perf_counter() - begin, bytes_read() - read, time.process_time() - used]

        seconds, read, spent = fit(1)
        if more:
            longer = fit(1 + more)
            seconds, read, spent = (
                (b - a) / more for a, b in zip((seconds, read, spent), longer, strict=True)
            )
        return [seconds, read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, spent]

    answer_questions(epoch)


def compare(folder: Path, kinds: list[str], workers: int, repeats: int) -> None:
    """Print the table."""
    from support.jobs import free_addresses

    in_process = ["--process", str(folder)]
    alone = Group(in_process, 1, [])
    together = Group(in_process, workers, free_addresses(workers))
    others = []
    if not all(kind.startswith("file") for kind in kinds):
        others = [Group(in_process, 1, [], **{LEGACY: "1"})]
        others += [Group(in_process, workers, free_addresses(workers), **{LEGACY: "1"})]
    print(
        "| input | alone, rows/s | workers, rows/s | ratio | of processor time | bytes read "
        "| tf-keras, rows/s | its ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    count = len(list(folder.glob("images/*/*.jpg")))
    for kind in kinds:
        rows = count // 8 * 60 // 512 * 512 * 8 if kind.endswith("parquet") else count
        groups = [alone, together, *([] if kind.startswith("file") else others)]
        found: list[list[float]] = []
        for repeat in range(repeats + 1):
            answers = [group.ask(kind) for group in groups]
            if repeat:  # the first epoch traces
                seconds = [max(each[0] for each in answer) for answer in answers]
                read = max(each[1] for each in answers[1]) / answers[0][0][1]
                spent = answers[0][0][3] / max(each[3] for each in answers[1])
                ratios = [a / b for a, b in zip(seconds[::2], seconds[1::2], strict=True)]
                found.append([rows / seconds[0], rows / seconds[1], ratios[0], spent, read])
                found[-1] += [rows / seconds[3], ratios[1]] if len(groups) > 2 else []
        middle = [statistics.median(values) for values in zip(*found, strict=True)]
        cells = [
            f"{value:,.0f}" if place in (0, 1, 5) else f"{value:.2f}" for place, value in enumerate(middle)
        ]
        cells += [""] * (7 - len(cells))
        print("|", " | ".join([kind, *cells]), "|", flush=True)
    for group in (alone, together, *others):
        group.end()


def large(folder: Path, gigabytes: float) -> None:
    """An epoch over files that are larger than memory may hold."""
    import numpy as np
    import tensorflow as tf

    from support.jobs import free_addresses

    rng = np.random.default_rng(0)
    block = rng.bytes(1 << 20)
    for number in range(8):
        with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as file:
            for _ in range(int(gigabytes / 2 * 1024 / 8)):
                feature = {
                    "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[block])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % CLASSES])),
                }
                file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    write_parquet(folder, int(gigabytes / 2 * 2**30 / (4 * VALUES)), rng)
    print("| files | GB | seconds of an epoch | GB read by a worker | peak memory of a process, GB |")
    print("|---|---|---|---|---|")
    for kind, pattern in (("large records", "*.tfrecord"), ("file_batches parquet", "*.parquet")):
        size = sum(path.stat().st_size for path in folder.glob(pattern)) / 1e9
        group = Group(["--process", str(folder)], 2, free_addresses(2))
        answers = group.ask(kind, 0)
        group.end()
        seconds, read, peak, _ = (max(values) for values in zip(*answers, strict=True))
        cells = [pattern, f"{size:.1f}", f"{seconds:.0f}", f"{read / 1e9:.2f}", f"{peak / 1e6:.2f}"]
        print("|", " | ".join(cells), "|", flush=True)


def rows_in_memory(repeats: int, rows: int = 60_000) -> None:
    """Print what a row of 784 values costs a worker that gathers its own, or takes whole batches."""
    import numpy as np
    import tensorflow as tf

    from tfmuster.keras_compat.data.pipelines import patch_shuffle
    from tfmuster.keras_compat.data.row_selection import select_rows
    from tfmuster.keras_compat.rows import local_batch

    def microseconds(parts: Any) -> float:
        begin = time.process_time()
        for _ in parts.prefetch(tf.data.AUTOTUNE):
            pass
        return (time.process_time() - begin) / rows * 1e6

    patch_shuffle()
    print("| batch of all workers | type | own rows, µs | whole batches, µs |", flush=True)
    print("|---|---|---|---|")
    for size in (64, 512, 2048):
        for dtype in ("uint8", "float32"):
            data = (np.zeros((rows, 784), dtype), np.zeros(rows, np.int64))
            batches = tf.data.Dataset.from_tensor_slices(data).shuffle(10_000, seed=0).batch(size)
            own = select_rows(batches, 0, 2).dataset
            whole = batches.map(lambda *batch: local_batch(batch, 0, 2), num_parallel_calls=tf.data.AUTOTUNE)
            found = [[microseconds(parts) for parts in (own, whole)] for _ in range(repeats + 1)][1:]
            costs = [f"{statistics.median(each):.1f}" for each in zip(*found, strict=True)]
            print("|", " | ".join([f"{size:,}", dtype, *costs]), "|", flush=True)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, default=3072)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--large", type=float)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--process", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        process(arguments.process)
        return
    if arguments.rows:
        rows_in_memory(arguments.repeats)
        return
    folder = Path(tempfile.mkdtemp(prefix="tfmuster-input-"))
    try:
        if arguments.large:
            large(folder, arguments.large)
        else:
            write_data(folder, arguments.images)
            compare(folder, arguments.kinds, arguments.workers, arguments.repeats)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
