"""What is said of a run, in texts that each face shows."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from tfmuster.errors import TfmusterError
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.live.states import read_states
from tfmuster.tracking.record.layout import append_json, write_json
from tfmuster.tracking.record.recording import Documents, record_end, record_info
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.listing import find_run, run_columns, runs_in
from tfmuster.tracking.show.summary import last_epoch, summary
from tfmuster.tracking.show.tail import each_log_line

EVIL = "a\x9b31mb\u202ec\x1b[2J"


def a_run(folder: Path) -> Run:
    run = Run(new_run("train", run_dir=folder / "run", command=["train.py", EVIL], cluster={}))
    append_json(run.path / "metrics.jsonl", {"epoch": 1, EVIL: 1})
    append_json(run.path / "notes.jsonl", {"about": EVIL, "text": EVIL})
    record_end(
        run.path, "failed", {"error": EVIL, "task": EVIL}, tasks={EVIL: {"state": "failed", "host": "node"}}
    )
    return run


def test_texts_for_a_terminal_have_nothing_that_changes_it(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    told = summary(run)
    assert told["command"] == "train.py 'abc'"
    assert told["abc"] == "abc" and "first failure" in told
    assert last_epoch(run) == "epoch 1  abc 1.0000"
    texts = [
        *told,
        *told.values(),
        *itertools.chain(*run_columns([Documents(run.path) for run in runs_in(tmp_path)], paths=True)),
    ]
    assert [text for text in texts if not text.isprintable()] == []


def test_each_metric_of_the_last_epochs_has_a_column(tmp_path: Path) -> None:
    begun, trained, twice = (
        Run(new_run("train", run_dir=tmp_path / f"{number}-x", command=["train.py"], cluster={}))
        for number in range(3)
    )
    lines = [
        {"epoch": epoch, "accuracy": 0.5, "loss": loss, "shown": True}
        for epoch, loss in ((1, 2.0), (2, float("nan")))
    ]
    for line in lines:
        append_json(trained.path / "metrics.jsonl", line)
    # An epoch as long as a million others is not read twice, and a line of the user's own counts for nothing.
    with (twice.path / "metrics.jsonl").open("w") as file:
        file.write('{"fit": 1, "epoch": 1, "loss": 1}\n' * 100_000)
        file.write('{"fit": 2, "epoch": 7, "mae": 0.25}\nmine\n{"fit": 2, "ep')
    head, *rows = run_columns([Documents(run.path) for run in (begun, trained, twice)], paths=False)
    assert head[6:] == ("epoch", "loss", "accuracy", "mae")
    assert [row[6:] for row in rows] == [
        ("", "", "", ""),
        ("2", "nan", "0.5000", ""),
        ("fit 2, 7", "", "", "0.2500"),
    ]
    many = {"epoch": 1, **{f"metric {number}": 1.0 for number in range(20)}}
    append_json(begun.path / "metrics.jsonl", many)
    assert len(run_columns([Documents(begun.path)], paths=False)[0]) == 7 + 8


def test_how_a_run_failed_is_in_words_for_its_user(tmp_path: Path) -> None:
    run = Run(new_run("train", run_dir=tmp_path / "run", command=["train.py"], cluster={}))
    states = {
        "worker 0": {"state": "ended", "exit_code": -15},
        "worker 1": {"state": "failed", "exit_code": 1},
    }
    error = "tfmuster.errors.ModelError: No such model.\n  to do: choose another"
    record_end(run.path, "failed", {"error": error, "task": "worker 1", "exit_code": 1}, tasks=states)
    told = summary(run)
    assert told["worker 0"] == "ended, SIGTERM" and told["worker 1"] == "failed, exit code 1"
    assert told["first failure"].endswith(": No such model.\n  to do: choose another")


def test_a_state_or_a_host_is_a_word(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    tasks = {"worker 0": {"state": EVIL, "host": EVIL}}
    write_json(run.path / "status.json", {"state": EVIL, "restarts": 0, "tasks": tasks})
    record_info(run.path, {**run.info(), "host": EVIL})
    assert "host" not in run.info()
    assert run.status()["tasks"] == {"worker 0": {"state": "unknown"}}
    assert repr(run).isprintable()
    assert summary(run)["unreadable"] == "run.json (host), status.json (state, worker 0)"


def test_files_that_would_not_end_are_left_out_and_named(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for name in ("states", "logs"):
        (run.path / name).mkdir(exist_ok=True)
    for name in ("status.json", "error.json", "logs/worker-0.log", "states/worker-0.json"):
        (run.path / name).unlink(missing_ok=True)
        os.mkfifo(run.path / name)
    (run.path / "metrics.jsonl").unlink()
    (run.path / "metrics.jsonl").symlink_to("/dev/zero")
    with (run.path / "notes.jsonl").open("r+b") as file:
        file.truncate(20 << 30)
    _, row = run_columns([Documents(run.path) for run in runs_in(tmp_path)], paths=False)
    assert row[0] == run.name
    assert summary(run)["unreadable"] == "status.json, error.json, metrics.jsonl, notes.jsonl"
    assert list(each_log_line(run, None, lines=None)) == []
    assert run.history() == {} and read_states(run.path) == {}


def test_runs_of_several_folders_are_in_the_order_of_their_times(tmp_path: Path) -> None:
    names = {"a": ("20260101T000000Z-x", "20260103T000000Z-x"), "b": ("20260102T000000Z-y",)}
    for folder, each in names.items():
        for name in each:
            new_run("train", run_dir=tmp_path / folder / name, command=["train.py"], cluster={})
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "none"]
    assert [run.name for run in runs_in(folders)] == sorted(names["a"] + names["b"])
    assert find_run(None, folders).name == names["a"][1]
    assert find_run("-y", folders).path.parent == tmp_path / "b"
    with pytest.raises(TfmusterError) as caught:
        find_run("-z", folders)
    assert str(caught.value.found) == f"no run in {', '.join(map(str, folders))} matches '-z'"


def test_runs_is_a_function_for_users_and_a_package_for_tfmuster(tmp_path: Path) -> None:
    import tfmuster
    import tfmuster.tracking.record.layout

    assert tfmuster.runs(folder=tmp_path) == []
    for name in ("20260101T000000Z-x", "20260102T000000Z-y"):
        new_run("train", run_dir=tmp_path / name, command=["train.py"], cluster={})
    assert [run.name[-1] for run in tfmuster.runs(folder=tmp_path)] == ["x", "y"]
    assert isinstance(tfmuster.runs(folder=tmp_path)[0], tfmuster.Run)
    assert tfmuster.tracking.record.layout is not None


def test_each_file_of_a_run_is_read_once(tmp_path: Path) -> None:
    """Thousands of runs are listed in a second."""
    run = Run(tmp_path / "run")
    (run.path / "states").mkdir(parents=True)
    write_json(run.path / "run.json", {"started": "2026-01-01T00:00:00+00:00", "command": ["a.py"]})
    write_json(run.path / "status.json", {"state": "done", "tasks": {"worker 0": {"state": "done"}}})
    append_json(run.path / "metrics.jsonl", {"epoch": 1, "loss": 0.5})
    trained = {"time": 1.0, "phase": "trained", "images_per_second": 128}
    for index in range(50):
        append_json(run.path / "states" / f"worker-{index}.jsonl", trained)
    opened: list[str] = []
    listening = True

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and str(arguments[0]).startswith(str(tmp_path)):
            opened.append(Path(str(arguments[0])).name)

    sys.addaudithook(hear)
    documents = Documents(run.path)
    _, (*_, speed, epoch, loss) = run_columns([documents], paths=False)
    assert documents.unreadable() == ""
    listening = False
    assert (speed, epoch, loss) == ("128 images/s", "1", "0.5000")
    # What is not there is not opened.
    assert sorted(opened) == ["metrics.jsonl", "run.json", "status.json", "worker-0.json", "worker-0.jsonl"]
