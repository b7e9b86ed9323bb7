"""How a run directory is taken: by one job alone, and left as it was if the job does not start."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest

from tfmuster.environment import SUBMITTED_VARIABLE
from tfmuster.errors import LaunchError
from tfmuster.launcher.job import Job
from tfmuster.tracking.lifecycle.beginning import claim_call, claim_run_dir, new_run
from tfmuster.tracking.record.layout import NAMES, utc_now, write_json
from tfmuster.tracking.record.recording import record_end
from tfmuster.tracking.run import Run
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    """The texts below are those of the command line."""
    with speaking("shell"):
        yield


JOBS = 40


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_jobs_that_start_in_one_second_get_directories_of_their_own(here: Path) -> None:
    with ThreadPoolExecutor(JOBS) as pool:
        claims = list(pool.map(lambda _: claim_call("train"), range(JOBS)))
    assert len({claim.path for claim in claims}) == JOBS
    assert all((claim.path / "call").is_dir() and claim.path.parent == here / "runs" for claim in claims)


def test_a_directory_in_another_folder_is_made_with_it_and_removed_with_it(here: Path) -> None:
    claim = claim_run_dir("train", runs=here / "of" / "mine")
    assert claim.path.parent == here / "of" / "mine"
    assert claim_call("train", runs="of/mine").path.parent == here / "of" / "mine"
    claim.release()
    assert not claim.path.exists() and (here / "of" / "mine").is_dir()
    alone = claim_run_dir("train", runs="other")
    alone.release()
    assert not (here / "other").exists()


def test_of_jobs_that_want_one_directory_one_gets_it(here: Path) -> None:
    def claim(_: int) -> bool:
        try:
            claim_call("train", "mine")
        except LaunchError as error:
            assert error.fields["reason"] == "run-dir"
            assert error.found == "mine already holds call"
            return False
        return True

    with ThreadPoolExecutor(JOBS) as pool:
        assert sum(pool.map(claim, range(JOBS))) == 1
    assert (here / "mine" / "call").is_dir()


@pytest.mark.parametrize("folder", [None, "new", "new/and/deep"])
def test_what_is_not_used_is_removed(here: Path, folder: str | None) -> None:
    claim = claim_call("train", folder)
    (claim.path / "call" / "call.pkl").write_text("data")
    claim.release()
    assert list(here.iterdir()) == []


def test_what_was_there_before_stays(here: Path) -> None:
    (here / "mine" / "data").mkdir(parents=True)
    (here / "mine" / "data" / "a.csv").write_text("1,2")
    claim_call("train", "mine").release()
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*")) == [
        "mine",
        "mine/data",
        "mine/data/a.csv",
    ]


def test_files_that_came_meanwhile_stay(here: Path) -> None:
    claim = claim_call("train", "mine")
    (here / "mine" / "notes.txt").write_text("mine")
    claim.release()
    assert [path.name for path in (here / "mine").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("held", ["logs", "call"])
def test_a_directory_with_a_run_is_refused_and_kept(here: Path, held: str) -> None:
    (here / "mine" / held).mkdir(parents=True)
    (here / "mine" / held / "file").write_text("kept")
    with pytest.raises(LaunchError, match="must be new"):
        claim_call("train", "mine")
    assert [path.name for path in (here / "mine" / held).iterdir()] == ["file"]


#: Files of a user under names that a run uses.
USERS = (
    *("run.json", "status.json", "error.json", "resume.json", "stop.json", "stop", "report.html"),
    *("metrics.jsonl", "notes.jsonl", "evaluations.jsonl", "arrived.jsonl"),
    *("states/ohio.json", "states/notes.txt", "stacks/u.txt", "tfruns.d/u", "logs/u.txt", "call/call.pkl"),
)


def files_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("submitted", [False, True])
@pytest.mark.parametrize("own", USERS)
def test_files_of_the_user_under_names_of_a_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, own: str, submitted: bool
) -> None:
    if submitted:
        monkeypatch.setenv(SUBMITTED_VARIABLE, "slurm")
    for name in (own, "data.csv"):
        (here / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "mine" / name).write_text("{}")
    for claim in (
        lambda: claim_run_dir("train", "mine"),
        lambda: claim_call("train", "mine"),
        lambda: Run(new_run("train", run_dir="mine", command=["train.py"], cluster={})),
    ):
        with pytest.raises(LaunchError, match="must be new") as refused:
            claim()
        assert refused.value.found == f"mine already holds {own.partition('/')[0]}"
        assert "Choose another" in str(refused.value.fix) and "remove" not in str(refused.value.fix)
        assert files_in(here / "mine") == {own: "{}", "data.csv": "{}"}


def test_all_names_are_told(here: Path) -> None:
    for own in USERS:
        (here / "mine" / own).parent.mkdir(parents=True, exist_ok=True)
        (here / "mine" / own).write_text("[1]")
    with pytest.raises(LaunchError) as refused:
        new_run("train", run_dir="mine", command=["train.py"], cluster={})
    assert set(str(refused.value.found)[len("mine already holds ") :].split(", ")) == set(NAMES)


def test_a_run_that_waits_for_a_batch_system_keeps_its_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"name": "train", "command": ["train.py"], "started": utc_now(), "directory": ".", "host": ""}
    (here / "mine").mkdir()
    write_json(here / "mine" / "run.json", record)
    for claim in (claim_run_dir, claim_call):
        with pytest.raises(LaunchError, match="already holds a run"):
            claim("train", "mine")
    with pytest.raises(LaunchError, match="already holds a run"):
        new_run("train", run_dir="mine", command=["train.py"], cluster={})
    monkeypatch.setenv(SUBMITTED_VARIABLE, "slurm")
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    assert run.info()["pid"] and (run.path / "logs").is_dir()


def test_a_run_that_ended_while_it_waited_can_be_resumed(here: Path) -> None:
    record = {"name": "train", "command": ["train.py"], "started": utc_now(), "directory": ".", "host": ""}
    (here / "mine").mkdir()
    write_json(here / "mine" / "run.json", record)
    write_json(here / "mine" / "status.json", {"state": "interrupted"})
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    assert run.info()["resumed"] == 1 and (run.path / "logs").is_dir()


def test_what_a_run_has_left_does_not_stop_the_next(here: Path) -> None:
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    (run.path / "checkpoints").mkdir()
    (run.path / "model.keras").write_text("model")
    for name in NAMES:
        if not (run.path / name).exists():
            (run.path / name).write_text("{}")
    record_end(run.path, "done")
    assert run.remove() == ["checkpoints", "model.keras"]
    assert Run(new_run("train", run_dir="mine", command=["train.py"], cluster={})).path == run.path


def test_a_run_that_has_begun_is_kept(here: Path) -> None:
    claim = claim_call("train", "mine")
    new_run("train", run_dir="mine", command=["train.py"], cluster={})
    claim.release()
    assert list((here / "mine" / "call").iterdir()) == []
    assert (here / "mine" / "call").is_dir() and (here / "mine" / "run.json").exists()


def test_a_step_of_the_clock_does_not_lose_a_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    stock = psutil.Process.create_time
    # On Linux this is the time of the machine's start by the clock as it is now, plus ticks.
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: stock(process) + 3600.0)
    assert run.status()["state"] == "starting"


def test_another_process_with_the_number_of_the_launcher_is_not_it(here: Path) -> None:
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    info = run.info()
    write_json(run.path / "run.json", {**info, "pid_birth": info["pid_birth"] + "1"})
    assert run.status()["state"] == "lost"


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize(
    ("state", "seconds", "becomes"),
    [
        ("running", 200, "running"),
        ("running", 400, "lost"),
        ("starting", 3500, "starting"),
        ("starting", 3700, "lost"),
        ("restarting", 3500, "restarting"),
        ("restarting", 3700, "lost"),
        ("done", 99_999, "done"),
    ],
)
def test_a_run_of_another_machine_or_user_is_lost_when_its_launcher_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, state: str, seconds: float, becomes: str, foreign: bool
) -> None:
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    if foreign:
        monkeypatch.setattr("tfmuster.tracking.live.status._is_readable", lambda run_dir: False)
        monkeypatch.setattr(Run, "info", lambda run: {})
    else:
        write_json(run.path / "run.json", {**run.info(), "host": "elsewhere"})
    written = datetime.now(timezone.utc) - timedelta(seconds=seconds)
    write_json(run.path / "status.json", {"state": state, "updated": written.isoformat()})
    assert run.status()["state"] == becomes
    if becomes == "lost" and not foreign:
        assert run.stop()["state"] == "lost"
        run.remove()
        assert not run.path.exists()


def test_workers_that_have_longer_to_start_are_waited_for(here: Path) -> None:
    settings = Job(["true"], workers=1, start_timeout=600).settings()
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}, settings=settings))
    write_json(run.path / "run.json", {**run.info(), "host": "elsewhere"})
    for seconds, state in ((3700, "starting"), (4300, "lost")):
        written = datetime.now(timezone.utc) - timedelta(seconds=seconds)
        write_json(run.path / "status.json", {"state": "starting", "updated": written.isoformat()})
        assert run.status()["state"] == state


def test_a_run_that_waits_for_a_batch_system_is_not_lost(here: Path) -> None:
    run = Run(new_run("train", run_dir="mine", command=["train.py"], cluster={}))
    write_json(run.path / "run.json", {**run.info(), "host": ""})
    write_json(run.path / "status.json", {"state": "starting", "updated": "2026-01-01T00:00:00+00:00"})
    assert run.status()["state"] == "starting"


def test_a_directory_that_can_not_be_made(here: Path) -> None:
    (here / "runs").write_text("a file")
    with pytest.raises(LaunchError, match="can't be made") as caught:
        claim_run_dir("train")
    assert caught.value.found == "Not a directory"
    assert (
        caught.value.fix
        == "Choose another place with --run-dir, or a working directory that you can write to."
    )
    with pytest.raises(LaunchError, match="can't be made"):
        claim_run_dir("train", "runs/mine")
    assert (here / "runs").read_text() == "a file"
