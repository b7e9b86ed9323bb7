"""What a run is remembered by, in its summary and its report."""

from __future__ import annotations

import json
from pathlib import Path

from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.live.machines import read_machines
from tfmuster.tracking.record.layout import append_json, write_json
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.facts import facts
from tfmuster.tracking.show.report import report_html
from tfmuster.tracking.show.summary import document, summary

GB = 2**30


def a_run(folder: Path, **settings: object) -> Run:
    return Run(
        new_run("train", run_dir=folder / "run", command=["train.py"], cluster={}, seed=5, settings=settings)
    )


def put_machine(run: Run, task: str, **machine: object) -> None:
    (run.path / "states").mkdir(exist_ok=True)
    write_json(run.path / "states" / f"{task}.machine", machine)


def test_a_run_that_has_told_nothing(tmp_path: Path) -> None:
    assert facts(a_run(tmp_path)) == {"seed": "5, of the job"}


def test_what_workers_have_told(tmp_path: Path) -> None:
    run = a_run(tmp_path, launch={"backend": "local", "workers": 2, "env": {"A": "swordfish"}})
    for about, text, value in (("seed", "7, set by the program", 7), ("model summary", "3 layers", "dense")):
        append_json(run.path / "notes.jsonl", {"about": about, "text": text, "value": value})
    for index in range(6):
        put_machine(run, f"worker-{index}", host="a", cores=8, memory=32 * GB, gpus=["T4", "T4"])
    put_machine(run, "ps-0", host="b", cores=1, memory=GB, gpus=[])
    told = summary(run)
    assert told["seed"] == "7, set by the program"
    assert told["hardware"].splitlines() == [
        "ps 0 on b: 1 core, 1.0 GB of memory, no GPU",
        "  worker 0, worker 1, worker 2, worker 3 and 2 more on a: 8 cores, 32.0 GB of memory, 2 GPU T4",
    ]
    assert "swordfish" in told["run again"]
    page = report_html(run)
    assert "swordfish" not in page and "dense" in page and "2 GPU T4" in page
    data = json.loads(json.dumps(document(run)))
    assert data["machines"]["ps 0"] == {"host": "b", "cores": 1, "memory": GB, "gpus": []}
    assert data["run_again"] == told["run again"]


def test_a_machine_that_is_none_is_left_out(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    put_machine(run, "worker-0", host="a", cores="8", memory=GB, gpus=[])
    put_machine(run, "worker-1", host="a")
    (run.path / "states" / "worker-2.machine").write_text("[")
    assert read_machines(run.path) == {}


def test_odd_settings_of_a_launch(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for launch in ([], {"none": 1}, {"env": 5, "workers": [1]}, {"hosts": {"a": 1}, "backend": None}):
        write_json(run.path / "run.json", {**run.info(), "launch": launch})
        summary(run)
        report_html(run)
