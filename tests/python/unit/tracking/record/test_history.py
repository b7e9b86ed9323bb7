"""The metrics of all epochs: as they were written, in order, and in little memory."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tfmuster.tracking.record.history import NewEpochs, read_history
from tfmuster.tracking.record.layout import append_json


def write(folder: Path, lines: list[Any]) -> None:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)


def test_values_are_those_of_their_epochs(tmp_path: Path) -> None:
    write(tmp_path, [{"epoch": 1, "loss": 2}, {"epoch": 2, "loss": None, "val_loss": "0.5"}, {"epoch": 3}])
    history = read_history(tmp_path)
    assert [history.epoch(at) for at in range(len(history))] == [1, 2, 3]
    assert {name: [*column.known] for name, column in history.columns.items()} == {
        "loss": [1, 1, 0],
        "val_loss": [0, 1, 0],
    }
    assert history.columns["val_loss"].values[1] == 0.5 and math.isnan(history.columns["loss"].values[1])
    assert [*history.columns["val_loss"].numbered()] == [(2, 0.5)]
    assert str(history.lists()) == "{'loss': [2.0, nan], 'val_loss': [0.5]}"


@pytest.mark.parametrize("odd", [None, "mine", {"epoch": 1, "shown": 1}], ids=["alike", "text", "other"])
def test_the_last_line_of_a_repeated_epoch_counts(tmp_path: Path, odd: object) -> None:
    """Lines that are alike are added together, and have the same meaning as others."""
    places = [(1, 1), (1, 2), (2, 1), (1, 2), (2, 1), (2, 2)]
    lines = [
        {"fit": fit, "epoch": epoch, "loss": float(number)} for number, (fit, epoch) in enumerate(places)
    ]
    write(tmp_path, [*([odd] if odd else []), *lines])
    history = read_history(tmp_path)
    assert [(history.fit(at), history.epoch(at)) for at in range(len(history))] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    assert history.lists() == {"loss": [0.0, 3.0, 4.0, 5.0]}


def test_an_epoch_is_a_whole_number_of_any_size(tmp_path: Path) -> None:
    for epochs, expected in (([1.5, 2], [1, 2]), ([2**70, 3], [3, 2**70]), ([None, 2, math.inf], [2])):
        write(tmp_path, [{"fit": 1, "epoch": epoch, "loss": 1.0} for epoch in epochs])
        history = read_history(tmp_path)
        assert [history.epoch(at) for at in range(len(history))] == expected


def test_an_epoch_takes_nine_bytes_for_a_value(tmp_path: Path) -> None:
    """A million epochs of two metrics take 34 MB; as objects they took 900 MB."""
    count = 50_000
    write(tmp_path, [{"fit": 1, "epoch": n, "loss": 1 / n, "mae": 0.5} for n in range(1, count + 1)])
    tracemalloc.start()
    try:
        history = read_history(tmp_path)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history) == count
    assert kept < 1.2 * count * (8 + 8 + 2 * 9) and most < kept + 5e6


def test_new_epochs_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(tmp_path, [{"fit": 1, "epoch": 1, "loss": 1.0}, {"fit": 1, "epoch": 2, "loss": 1.0}])
    new = NewEpochs(tmp_path)
    assert [*new.each()] == []
    # What was read is not read again.
    with path.open("r+") as file:
        file.write("x" * 30)
    for epoch in (2, 3):  # one that a restart repeats
        append_json(path, {"fit": 1, "epoch": epoch, "loss": 0.5})
    with path.open("a") as file:
        file.write('{"fit": 2, ')
        file.flush()
        assert [*new.each()] == [{"fit": 1, "epoch": 3, "loss": 0.5}]
        file.write('"epoch": 1}\nmine\n')
        file.flush()
        assert [*new.each()] == [{"fit": 2, "epoch": 1}]
    assert [*NewEpochs(tmp_path / "none").each()] == []
