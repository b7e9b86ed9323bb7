"""What is said of a run, in texts that each face shows."""

from __future__ import annotations

from pathlib import Path

from tfmuster.runs.layout import append_json, write_json
from tfmuster.runs.lifecycle import new_run
from tfmuster.runs.listing import last_epoch, run_table, summary
from tfmuster.runs.run import Run

EVIL = "a\x9b31mb\u202ec\x1b[2J"


def a_run(folder: Path) -> Run:
    run = new_run("train", run_dir=folder / "run", command=["train.py", EVIL], cluster={})
    append_json(run.path / "metrics.jsonl", {"epoch": 1, EVIL: 1})
    append_json(run.path / "notes.jsonl", {"about": EVIL, "text": EVIL})
    run.end("failed", {"error": EVIL, "task": EVIL}, tasks={EVIL: {"state": "failed", "host": "node"}})
    return run


def test_texts_for_a_terminal_have_nothing_that_changes_it(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    told = summary(run)
    assert told["command"] == "train.py abc"
    assert told["abc"] == "abc" and "first failure" in told
    assert last_epoch(run) == "epoch 1  abc 1.0000"
    texts = [*told, *told.values(), *(text for row in run_table(tmp_path) for text in row.values())]
    assert [text for text in texts if not text.isprintable()] == []


def test_a_state_or_a_host_is_a_word(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    tasks = {"worker 0": {"state": EVIL, "host": EVIL}}
    write_json(run.path / "status.json", {"state": EVIL, "restarts": 0, "tasks": tasks})
    run.set_info({**run.info(), "host": EVIL})
    assert "host" not in run.info()
    assert run.status()["tasks"] == {"worker 0": {"state": "unknown"}}
    assert repr(run).isprintable()
    assert summary(run)["unreadable"] == "run.json (host), status.json (state, worker 0)"
