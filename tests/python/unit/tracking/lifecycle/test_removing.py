"""Runs are removed, with nothing but what is theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tfmuster.cli import cli
from tfmuster.errors import TfmusterError
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.layout import write_json
from tfmuster.tracking.record.recording import record_end, record_info
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.listing import ended_before
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    """The texts below are those of the command line."""
    with speaking("shell"):
        yield


NAME = "20260101T000000Z-train"


def a_run(folder: Path, state: str = "done", *, days: float = 0) -> Run:
    run = Run(new_run("train", run_dir=folder, command=["train.py"], cluster={}))
    return ended(run, state, days=days)


def ended(run: Run, state: str = "done", *, days: float = 0) -> Run:
    folder = run.path
    (folder / "logs" / "worker-0.log").write_text("text\n")
    if state != "starting":
        record_end(run.path, state)
    written = (datetime.now(timezone.utc) - timedelta(days=days)).isoformat()
    write_json(folder / "status.json", {"state": state, "updated": written})
    return run


def remove(*arguments: object, folder: Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["runs", "remove", "--runs", str(folder), *map(str, arguments)])
    if isinstance(done.exception, TfmusterError):
        raise done.exception
    return done.exit_code, done.output


def own_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose directory tfmuster has named, with what programs write there by tfmuster's functions."""
    monkeypatch.chdir(folder)
    run = ended(Run(new_run("train", run_dir=None, command=["train.py"], cluster={})))
    for name in ("checkpoints", "checkpoints-fit-2", "tensorboard"):
        (run.path / name).mkdir()
    (run.path / "checkpoints" / ".owner.json").write_text("{}")
    for name in ("checkpoints/000000000008", "checkpoints-fit-2/000000000016"):
        (run.path / f"{name}.checkpoint").write_bytes(b"weights")
    (run.path / "tensorboard" / "events.out.tfevents.1").write_bytes(b"curves")
    (run.path / "model.keras").write_bytes(b"model")
    return run


def test_a_run_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = own_name(tmp_path, monkeypatch)
    assert run.remove() == []
    assert not run.path.exists() and list((tmp_path / "runs").iterdir()) == []


def test_what_tfmuster_has_not_written_stays_whatever_the_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tmp_path / "20261126T000000Z-exp"
    chosen.mkdir()
    (chosen / "thesis.txt").write_text("precious")
    run = a_run(chosen)
    assert run.remove() == ["thesis.txt"]
    assert (chosen / "thesis.txt").read_text() == "precious"
    named = own_name(tmp_path, monkeypatch)
    (named.path / "own.csv").write_text("what the program left where its run is")
    (named.path / "checkpoints" / "best.keras").write_bytes(b"by Keras's own callback")
    for name in ("training-1.csv", "ps-0.log", "worker-0.error.json", "slurm.log"):
        (named.path / "logs" / name).write_text("text")
    record_info(named.path, {**named.info(), "slurm_job": "7"})
    assert remove(named.name, folder=tmp_path / "runs") == (
        0,
        f"{named.name}: removed, but for checkpoints, logs, own.csv\n",
    )
    assert sorted(str(path.relative_to(named.path)) for path in named.path.rglob("*")) == [
        "checkpoints",
        "checkpoints/best.keras",
        "logs",
        "logs/training-1.csv",
        "own.csv",
    ]


def test_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = own_name(tmp_path, monkeypatch)
    outside = tmp_path / "outside"
    (run.path / "checkpoints").rename(outside)
    (run.path / "checkpoints").symlink_to(outside)
    (run.path / "logs" / "worker-0.log").unlink()
    (run.path / "logs").rmdir()
    (run.path / "logs").symlink_to(outside)
    assert run.remove() == ["checkpoints"]
    assert len(list(outside.iterdir())) == 2


def test_a_folder_that_its_user_has_chosen_keeps_the_users_files(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data.csv").write_text("1")
    run = a_run(tmp_path / "mine", "failed")
    (run.path / "notes.txt").write_text("mine")
    os.symlink(outside, run.path / "checkpoints")
    (run.path / "model.keras").write_text("perhaps of another run")
    assert run.remove() == ["checkpoints", "model.keras", "notes.txt"]
    assert sorted(path.name for path in run.path.iterdir()) == ["checkpoints", "model.keras", "notes.txt"]
    assert (outside / "data.csv").read_text() == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_run_of_another_user_stays(tmp_path: Path) -> None:
    """A team shares the folder, and all may write there."""
    names = [f"2026010{day}T000000Z-train" for day in (1, 2, 3)]
    theirs, another, own = (a_run(tmp_path / name, days=2) for name in names)
    for run in (theirs, another):
        os.chown(run.path / "run.json", 65534, 65534)
    with pytest.raises(TfmusterError, match="A run is removed by the user who launched it") as caught:
        theirs.remove()
    assert caught.value.fields["reason"] == "foreign"
    assert "it belongs to nobody, and you are root" in str(caught.value.found)
    _, said = remove(theirs.name, another.name, folder=tmp_path)
    assert said.count("not removed: it belongs to nobody, and you are root") == 2
    assert remove("--older-than", "1d", folder=tmp_path) == (0, f"{own.name}: removed\n")
    assert theirs.path.exists() and another.path.exists() and not own.path.exists()


def test_a_file_of_the_user_that_is_called_run_json_makes_no_run(tmp_path: Path) -> None:
    (tmp_path / "mine" / "logs").mkdir(parents=True)
    (tmp_path / "mine" / "logs" / "u.txt").write_text("mine")
    (tmp_path / "mine" / "run.json").write_text('{"command": "go"}')
    with pytest.raises(TfmusterError, match="no record of a run"):
        Run(tmp_path / "mine").remove()
    assert (tmp_path / "mine" / "logs" / "u.txt").exists() and (tmp_path / "mine" / "run.json").exists()


def test_a_run_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path / NAME, "starting")
    with pytest.raises(TfmusterError, match="must have ended before") as refused:
        remove(run.name, folder=tmp_path)
    assert "tfmuster runs stop" in str(refused.value)
    assert (run.path / "logs" / "worker-0.log").exists()


def test_by_age(tmp_path: Path) -> None:
    ages = {"20260101T000000Z-a": 40, "20260102T000000Z-b": 31, "20260103T000000Z-c": 29}
    for name, days in ages.items():
        a_run(tmp_path / name, days=days)
    a_run(tmp_path / "20260104T000000Z-d", "starting", days=90)
    assert [run.name[-1] for run in ended_before("5w", tmp_path)] == ["a"]
    assert remove("--older-than", "30d", folder=tmp_path) == (
        0,
        "20260101T000000Z-a: removed\n20260102T000000Z-b: removed\n",
    )
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["c", "d"]


@pytest.mark.parametrize("age", ["", "30", "a month", "-1d", "1.5d", "1y", None, 30])
def test_what_is_no_age(age: Any, tmp_path: Path) -> None:
    with pytest.raises(TfmusterError, match="a number and a unit"):
        ended_before(age, tmp_path)


def test_nothing_is_removed_unless_it_is_named(tmp_path: Path) -> None:
    a_run(tmp_path / NAME)
    for arguments in ((), (NAME, "--older-than", "30d")):
        code, said = remove(*arguments, folder=tmp_path)
        assert code == 2 and "Name the runs to remove, or give --older-than." in said
    with pytest.raises(TfmusterError, match="A run must be given"):
        remove("2026", "nothing-like-it", folder=tmp_path)
    assert (tmp_path / NAME / "run.json").exists()
