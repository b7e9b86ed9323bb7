"""What differs between runs: settings, and metrics side by side."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from support.evil_run import Seen, made_run
from tfmuster.cli import main
from tfmuster.errors import TfmusterError
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.layout import append_json
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.comparison import compare_runs


def a_run(
    folder: Path, name: str, *epochs: dict[str, float], command: str = "train.py", **settings: object
) -> Run:
    run = Run(
        new_run(
            name, run_dir=folder / name, command=command.split(), cluster={}, settings={"launch": settings}
        )
    )
    for number, values in enumerate(epochs, 1):
        append_json(run.path / "metrics.jsonl", {"fit": 1, "epoch": number, "time": 1.0, **values})
    return run


def test_settings_that_differ(tmp_path: Path) -> None:
    first = a_run(tmp_path, "a", command="train.py --lr 0.1 --fast data", workers=2, env={"A": "1"})
    second = a_run(tmp_path, "b", command="train.py --lr=-0.2 data", workers=2, env={"A": "2"}, grace=5.0)
    append_json(second.path / "notes.jsonl", {"about": "batch size", "text": "64", "value": 64})
    assert compare_runs([first, second])["settings"] == {
        "--lr": {"a": "0.1", "b": "-0.2"},
        "--fast": {"a": "data", "b": None},
        "program": {"a": "train.py", "b": "train.py data"},
        "env A": {"a": "1", "b": "2"},
        "grace": {"a": None, "b": "5.0"},
        "batch size": {"a": None, "b": "64"},
    }


def test_other_layers_with_as_many_parameters(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, name) for name in "ab"]
    for run, layers in zip(runs, ("dense", "other"), strict=True):
        append_json(run.path / "notes.jsonl", {"about": "model summary", "text": "3 layers", "value": layers})
    assert list(compare_runs(runs)["settings"]) == ["layers"]


def test_final_and_best_metrics(tmp_path: Path) -> None:
    first = a_run(
        tmp_path,
        "a",
        {"loss": 3.0, "val_accuracy": 0.5, "score": 1.0},
        {"loss": 1.0, "val_accuracy": 0.9, "score": 3.0},
        {"loss": 2.0, "val_accuracy": 0.7, "score": 2.0},
    )
    second = a_run(tmp_path, "b", {"loss": 1.5}, {"loss": math.nan})
    metrics = compare_runs([first, second])["metrics"]
    assert list(metrics) == ["loss", "score", "val_accuracy"]
    assert metrics["loss"]["a"] == {"final": 2.0, "best": 1.0, "best_epoch": 2}
    assert metrics["val_accuracy"] == {"a": {"final": 0.7, "best": 0.9, "best_epoch": 2}}
    # Nobody knows whether a score is to be small.
    assert metrics["score"]["a"] == {"final": 2.0, "best": None, "best_epoch": None}
    assert math.isnan(metrics["loss"]["b"]["final"]) and metrics["loss"]["b"]["best"] == 1.5


def test_runs_of_one_name_in_two_folders(tmp_path: Path) -> None:
    paths = [a_run(tmp_path / place, "a").path for place in ("x", "y")]
    assert compare_runs(paths)["runs"] == list(map(str, paths))


def test_one_run_can_not_be_compared(tmp_path: Path) -> None:
    run = a_run(tmp_path, "a")
    for runs in ([], [run], [run, tmp_path / "a"]):
        with pytest.raises(TfmusterError, match="Two or more runs"):
            compare_runs(runs)


def test_the_page_has_the_curves_of_all_runs_and_no_values_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, secret in (("a", "swordfish"), ("b", "carp")):
        a_run(
            tmp_path / "runs",
            name,
            {"loss": 2.0, "val_loss": 3.0},
            {"loss": 1.0, "val_loss": 2.0},
            env={"X": secret},
        )
    assert main(["runs", "compare", "a", "b", "--html", "page.html"]) == 0
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines()] == [
        ["settings", "that", "differ", "a", "b"],
        ["env", "X", "swordfish", "carp"],
        ["last", "value", "of", "each", "metric", "a", "b"],
        ["loss", *["1", "(best", "1,", "epoch", "2)"] * 2],
        ["val_loss", *["2", "(best", "2,", "epoch", "2)"] * 2],
    ]
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 1 and page.count("<polyline") == 4
    assert [name in page for name in ("a, validation", "b, validation")] == [True, True]
    assert "swordfish" not in page and "carp" not in page
    assert main(["runs", "compare", "a", "b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == ["a", "b"]


def test_nothing_that_was_written_becomes_markup(tmp_path: Path) -> None:
    runs = [made_run(tmp_path / place) for place in "ab"]
    compare_runs(runs, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not {"script", "img", "link", "iframe", "a", "object", "b"} & set(Seen(page).tags)
    assert page.count("<svg") == 3


def test_a_page_that_can_not_be_written(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, name) for name in "ab"]
    with pytest.raises(TfmusterError, match="can't be written"):
        compare_runs(runs, tmp_path / "none" / "page.html")
