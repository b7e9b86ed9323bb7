"""Whatever has become of a run's files: the rest is shown, and what can't be read is named."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tfmuster.cli import main
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.recording import record_end
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.listing import ended_before

#: What may be anywhere.
ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**63,
    1.5,
    True,
    "",
    "x",
    "inf",
    [],
    [1],
    ["x"],
    {},
    {"x": 1},
    {"x": {}},
)
NAMES = {
    "run.json": ("name", "command", "cluster", "host", "started", "pid", "versions", "git", "seed", "job"),
    "status.json": ("state", "restarts", "tasks", "updated"),
    "error.json": ("time", "task", "host", "exit_code", "signal", "error", "traceback", "last_lines", "log"),
}
TASK = {"state": "done", "host": "a", "pid": 1, "exit_code": 0}
LINES = ("metrics.jsonl", "notes.jsonl", "states/worker-0.jsonl")
A_RUN = "20260101T000000Z-a"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs, both of which have failed."""
    monkeypatch.chdir(tmp_path)
    for name in (A_RUN, "20260102T000000Z-b"):
        run = Run(
            new_run("train", run_dir=Path("runs", name), command=["train.py"], cluster={"worker": ["a:1"]})
        )
        (run.path / "states").mkdir()
        (run.path / "logs" / "worker-0.log").write_text("text\n")
        error = {"time": "2026-01-01T00:00:00+00:00", "task": "worker 0", "host": "a", "exit_code": 1}
        more = {"signal": None, "error": "E: x", "traceback": "", "last_lines": ["x"], "log": "l"}
        record_end(run.path, "failed", {**error, **more}, tasks={"worker 0": dict(TASK)})
    return tmp_path / "runs"


def change(path: Path, name: str, value: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))


def shown(capsys: pytest.CaptureFixture[str], verb: str, *arguments: str, code: int = 0) -> str:
    assert main(["runs", verb, *arguments]) == code
    said = capsys.readouterr()
    return said.out + said.err


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, names in NAMES.items() for name in names])
def test_any_entry_may_be_anything(
    runs: Path, capsys: pytest.CaptureFixture[str], file: str, name: str
) -> None:
    before = (runs / A_RUN / file).read_text()
    for value in ODD:
        change(runs / A_RUN / file, name, value)
        said = shown(capsys, "list")
        assert A_RUN in said and "20260102T000000Z-b" in said
        for verb in ("show", "report"):
            shown(capsys, verb, A_RUN)
        shown(capsys, "show", "--json", A_RUN)
        assert isinstance(ended_before("1h"), list)
        (runs / A_RUN / file).write_text(before)


@pytest.mark.parametrize("name", TASK)
def test_any_entry_of_a_task_may_be_anything(
    runs: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for value in ODD:
        change(runs / A_RUN / "status.json", "tasks", {"worker 0": {**TASK, name: value}, "worker 1": value})
        for verb in ("list", "show", "report"):
            shown(capsys, verb, *([] if verb == "list" else [A_RUN]))
        change(runs / A_RUN / "status.json", "state", "lost")
        Run(runs / A_RUN).stop()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b"{", None], ids=repr)
def test_any_file_may_be_anything(
    runs: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    for name in (*NAMES, *LINES):
        path = runs / A_RUN / name
        path.unlink(missing_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        for verb in ("list", "show", "report", "logs"):
            shown(capsys, verb, *([] if verb == "list" else [A_RUN]))


@pytest.mark.parametrize(
    "line",
    [
        '{"epoch": "inf", "loss": 1}',
        '{"loss": 1e308, "epoch": 1}\n{"loss": -1e308, "epoch": 2}',
        '{"time": "inf", "phase": "training"}\n{"time": 1, "phase": "x"}',
        '{"time": "nan", "phase": "training"}\n{"time": 1, "phase": "x"}',
        '{"time": 1, "phase": "x", "step": "inf"}',
        '{"about": 1, "text": {}}',
        '{"text": "x"}',
    ],
)
def test_any_line_may_be_anything(runs: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    for name in LINES:
        (runs / A_RUN / name).write_text(line + "\n")
    for verb in ("list", "show", "report"):
        shown(capsys, verb, *([] if verb == "list" else [A_RUN]))


def test_what_can_not_be_read_is_named_in_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(runs / A_RUN / "status.json", "tasks", None)
    change(runs / A_RUN / "status.json", "restarts", "x")
    (runs / A_RUN / "metrics.jsonl").mkdir()
    line = "status.json (restarts, tasks), metrics.jsonl"
    assert f"{A_RUN}: can't read {line}\n" in shown(capsys, "list")
    assert f"unreadable:    {line}\n" in shown(capsys, "show", A_RUN)
    assert json.loads(shown(capsys, "show", "--json", A_RUN))["unreadable"] == line
    assert line in Path(shown(capsys, "report", A_RUN).strip()).read_text()
    assert "unreadable" not in shown(capsys, "show", "b") + shown(capsys, "show", "--json", "b")


@pytest.mark.parametrize("date", ["x", 5, "2026-01-01T00:00:00", None])
def test_a_run_without_a_date_is_as_old_as_its_file(
    runs: Path, capsys: pytest.CaptureFixture[str], date: Any
) -> None:
    change(runs / A_RUN / "status.json", "updated", date)
    change(runs / A_RUN / "run.json", "started", date)
    assert shown(capsys, "remove", "--older-than", "1h") == ""
    then = (datetime.now(timezone.utc) - timedelta(hours=2)).timestamp()
    os.utime(runs / A_RUN / "run.json", (then, then))
    assert shown(capsys, "remove", "--older-than", "1h") == f"{A_RUN}: removed\n"
    assert shown(capsys, "remove", "--older-than", "999999w") == ""


def test_what_can_not_be_removed_does_not_keep_the_rest(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = Run.remove

    def remove(run: Run) -> list[str]:
        if run.name == A_RUN:
            raise PermissionError(13, "Permission denied", "status.json")
        return stock(run)

    monkeypatch.setattr(Run, "remove", remove)
    said = shown(capsys, "remove", A_RUN, "20260102T000000Z-b", code=2)
    assert said == f"20260102T000000Z-b: removed\n{A_RUN}: not removed: Permission denied\n"
    said = shown(capsys, "remove", A_RUN, code=2)
    assert said.startswith("Error: You must be able to read and change the files of a run.\n")
    assert "found: status.json: Permission denied" in said
