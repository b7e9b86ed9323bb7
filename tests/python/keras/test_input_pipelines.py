"""Input of many kinds: two workers train as one process does, and each reads its own rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs import run_job

pytestmark = pytest.mark.slow

SAME = [
    "tutorial",
    "mapped",
    "class_weight",
    "directory",
    "texts",
    "sounds",
    "windows",
    "file_policy",
    "records_8",
    "records_7",
    "records_1",
]
SAME += ["csv", "images", "resumed"]


def write_files(folder: Path) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(1)
    for name, count in (("images", 10), ("bad", 10)):
        for label in "abc":
            (folder / name / label).mkdir(parents=True)
            for number in range(count):
                picture = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
                path = folder / name / label / f"{number}.png"
                tf.io.write_file(str(path), tf.io.encode_png(picture))
    (folder / "bad" / "b" / "7.png").write_bytes(b"\x89PNG no picture")
    for label in "abc":
        for kind in ("texts", "sounds"):
            (folder / kind / label).mkdir(parents=True)
        for number in range(10):
            letters = "".join(rng.choice(list("uvwxyz"), 6))
            (folder / "texts" / label / f"{number}.txt").write_text(letters)
            wave = tf.audio.encode_wav(rng.uniform(-1, 1, (6 + number % 3, 1)).astype(np.float32), 16_000)
            tf.io.write_file(str(folder / "sounds" / label / f"{number}.wav"), wave)
    (folder / "records").mkdir()
    (folder / "tables").mkdir()
    x, y = rng.random((103, 6)).astype(np.float32), rng.integers(0, 3, 103)
    for count in (8, 7, 1):
        for number in range(count):
            with tf.io.TFRecordWriter(str(folder / "records" / f"{count}-{number}.tfrecord")) as file:
                for row in range(number, 103, count):
                    feature = {
                        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x[row])),
                        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[y[row]])),
                    }
                    features = tf.train.Features(feature=feature)
                    file.write(tf.train.Example(features=features).SerializeToString())
    for number in range(7):
        lines = ["a,b,c,d,e,f,y", *(",".join(map(str, [*x[r], y[r]])) for r in range(number, 103, 7))]
        (folder / "tables" / f"{number}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, Any]]:
    """Output folder and processes of one process and of two workers."""
    folder = tmp_path_factory.mktemp("input")
    write_files(folder)
    done = {}
    for workers in (0, 2):
        out = tmp_path_factory.mktemp(f"workers-{workers}")
        done[workers] = out, run_job("input_pipelines.py", workers, folder, out, limit=280)
        for process in done[workers][1]:
            assert "\nnow\n" in "\n" + process.stdout, process.stderr[-3000:]
    return done


def found(out: Path, worker: int = 0) -> dict[str, Any]:
    return json.loads((out / f"found-{worker}.json").read_text())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SAME)
def test_same_as_one_process(jobs: dict[int, tuple[Path, Any]], name: str) -> None:
    alone = np.load(jobs[0][0] / f"{name}-0.npz")
    for worker in (0, 1):
        own = np.load(jobs[2][0] / f"{name}-{worker}.npz")
        for key in alone.files:
            np.testing.assert_allclose(own[key], alone[key], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.timeout(600)
def test_which_way_was_taken_is_told(jobs: dict[int, tuple[Path, Any]]) -> None:
    told = {name: each["told"] for name, each in found(jobs[2][0]).items() if each and "told" in each}
    own = ["each worker reads and prepares its own rows only"]
    for name in ("tutorial", "mapped", "class_weight", "directory", "sounds", "file_policy"):
        assert told[name] == own, name
    assert told["random"] == [
        "rows come in order from a map that uses RandomUniform, so every worker reads all of them"
    ]


@pytest.mark.timeout(600)
def test_each_worker_reads_its_own_images(jobs: dict[int, tuple[Path, Any]]) -> None:
    alone = found(jobs[0][0])
    for name in ("directory", "file_policy", "images"):
        for worker in (0, 1):
            assert found(jobs[2][0], worker)[name]["read"] <= 0.6 * alone[name]["read"], name


@pytest.mark.timeout(600)
def test_files_of_data_in_memory_are_refused(jobs: dict[int, tuple[Path, Any]]) -> None:
    for worker in (0, 1):
        error = found(jobs[2][0], worker)["file_policy_in_memory"]
        assert (error["kind"], error["reason"]) == ("data", "file-shard")
        assert "tfmuster.file_batches" in error["text"]
        assert len(error["text"]) < 500


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_is_named(jobs: dict[int, tuple[Path, Any]], workers: int) -> None:
    texts = [process.stderr for process in jobs[workers][1]]
    assert all(process.returncode for process in jobs[workers][1])
    assert any("DataError: Every image must be readable." in text and "b/7.png" in text for text in texts)
