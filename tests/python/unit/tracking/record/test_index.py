"""Runs are found from any folder, by the user's list of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tfmuster
from tfmuster.cli import main
from tfmuster.errors import TfmusterError
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.layout import append_json
from tfmuster.tracking.record.recording import index_path, known_runs, record_end, record_info
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.listing import find_run, runs


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def a_run(folder: Path, name: str) -> Run:
    return Run(new_run("train", run_dir=folder / "runs" / name, command=["train.py"], cluster={}))


def test_a_run_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (a_run(tmp_path / name, f"2026010{name}T000000Z-train") for name in "12")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [run.path for run in runs(all=True)] == [first.path, second.path]
    assert tfmuster.runs() == [] and len(tfmuster.runs(all=True)) == 2
    assert find_run().path == find_run("train").path == second.path
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"tfmuster: taking {second.path}"
    assert said[1] == f"tfmuster: 2 runs match 'train'; taking the newest, {second.name}"
    assert find_run("20260101").path == first.path
    with pytest.raises(TfmusterError, match="full name"):
        find_run("train", changes=True)
    assert find_run(first.name, changes=True).path == first.path
    twin = a_run(tmp_path / "3", first.name)
    with pytest.raises(TfmusterError) as caught:
        find_run(first.name, changes=True)
    assert caught.value.fields["reason"] == "part-of-name"
    assert str(caught.value.found).startswith("2 runs of this name; ")
    assert f"write {twin.path};" in str(caught.value.fix)
    with pytest.raises(TfmusterError) as caught:
        find_run(None, "runs")
    assert caught.value.found == "no runs in runs"
    # The folder has priority, once it has runs.
    here = a_run(tmp_path / "elsewhere", "20250101T000000Z-train")
    assert find_run().path == find_run("train").path == here.path


def test_who_changes_a_run_gives_its_name_and_not_a_part_of_it(tmp_path: Path) -> None:
    first, second = (a_run(tmp_path, f"20260101T00000{number}Z-train-{number}") for number in (1, 2))
    record_info(first.path, {**first.info(), "name": "train-1"})
    record_info(second.path, {**second.info(), "name": "train-2"})
    folder = tmp_path / "runs"
    for part in ("rain", "2026", "20260101T000002Z-train"):
        assert find_run(part, folder).path in (first.path, second.path)
        with pytest.raises(TfmusterError, match="full name") as caught:
            find_run(part, folder, changes=True)
        assert caught.value.fields["reason"] == "part-of-name"
        assert f"'{part}', a part of" in str(caught.value.found)
    assert find_run("train-1", folder, changes=True).path == first.path
    # Of two runs of one name, the one that goes on is meant.
    for run in (first, second):
        record_info(run.path, {**run.info(), "name": "train"})
    record_end(first.path, "done")
    assert second.goes_on and find_run("train", folder, changes=True).path == second.path
    assert find_run(None, folder, changes=True).path == second.path


def test_the_command_line_lists_and_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path / "1", "20260101T000000Z-train")
    monkeypatch.setenv("TZ", "UTC")
    record_info(
        run.path, {**run.info(), "started": "2026-01-01T00:00:00.000+00:00", "pid": 1, "host": "other"}
    )
    record_end(
        run.path, "done", tasks={"worker 0": {"state": "done"}}, updated="2026-01-01T00:03:20.000+00:00"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["runs", "list"]) == 0
    shown = capsys.readouterr()
    assert "Your runs in other folders:" in shown.err
    head, row = shown.out.splitlines()
    assert head.split() == ["run", "state", "started", "took", "tasks", "speed", "epoch"]
    assert str(run.path) in row and "done" in row and "1" in row
    assert main(["runs", "show"]) == 0
    assert f"run:           {run.path}" in capsys.readouterr().out
    assert main(["runs", "list", "--runs", "none"]) == 0
    assert capsys.readouterr().out == "No runs in none.\n"
    for verb in ("stop", "resume", "remove"):
        # Whoever types a part of a name means a run of this folder.
        for part in ("train", "20260101"):
            assert main(["runs", verb, part]) == 2
            said = capsys.readouterr().err
            assert "must be given by its full name to stop, resume or remove it" in said
            assert f"write {run.name};" in said and f"is in {run.path.parent}" in said
    for verb in ("stop", "resume"):
        assert main(["runs", verb]) == 2
        assert "found: no name; " in capsys.readouterr().err
    assert run.path.exists()
    assert main(["runs", "stop", run.name]) == 0
    assert main(["runs", "remove", run.name]) == 0
    assert main(["runs", "list", "--all"]) == 0
    assert capsys.readouterr().out.endswith("No runs in runs.\n")


def test_the_command_line_lists_the_newest_first_and_those_that_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    old, failed, new = (a_run(tmp_path, f"2026010{number}T000000Z-train-{number}") for number in (1, 2, 3))
    record_info(old.path, {**old.info(), "started": "2026-01-01T00:00:00.000+00:00"})
    append_json(new.path / "metrics.jsonl", {"epoch": 1, "loss": 0.5})
    record_end(failed.path, "failed")
    record_end(new.path, "done")

    def listed(*options: str) -> list[str]:
        assert main(["runs", "list", *options]) == 0
        return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]

    assert listed() == [new.name, failed.name, old.name]
    assert listed("--limit", "2") == [new.name, failed.name]
    assert listed("--state", "failed") == [failed.name]
    assert listed("--name", "-3") == [new.name]
    assert listed("--since", "12h") == [new.name, failed.name]
    assert main(["runs", "list", "--json", "--state", "done"]) == 0
    (row,) = json.loads(capsys.readouterr().out).values()
    assert row["name"] == new.name and row["metrics"] == {"loss": 0.5}
    assert main(["runs", "list", "--state", "frozen"]) == 0
    said = capsys.readouterr()
    assert said.out == "No runs that fit in runs.\n"
    # It may be misspelled.
    assert said.err == "The states of those that are there: done, failed, starting\n"
    assert main(["runs", "list", "--since", "yesterday"]) == 2
    assert "An age must be a number and a unit." in capsys.readouterr().err


def test_the_index_is_the_users_alone_and_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, "one")
    path = index_path()
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write('{"path": "/gone"}\n' * 20_000 + "[1]\n{\n")
    assert known_runs() == [run.path]
    other = a_run(tmp_path, "two")
    assert known_runs() == [run.path, other.path]
    assert len(path.read_text().splitlines()) == 2


def test_no_index_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run = a_run(tmp_path, "one")
    assert runs(tmp_path / "runs") and known_runs() == []
    monkeypatch.setenv("_R_CHECK_PACKAGE_NAME_", "tfmuster")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    a_run(tmp_path, "two")
    assert not (tmp_path / "state").exists() and run.path.exists()
