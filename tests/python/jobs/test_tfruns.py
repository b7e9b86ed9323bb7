"""What R's package tfruns reads of a run."""

from __future__ import annotations

from pathlib import Path

from support.launching import only_run, read_json, tfmuster, write


def test_what_tfruns_reads_is_there(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "train.py",
        "from tfmuster.tracking.record.lines import append_metrics",
        "append_metrics(1, 1, {'loss': 2.0}, shown=True)",
        "append_metrics(1, 2, {'loss': float('nan')}, shown=True)",
        "raise ValueError('no luck')",
    )
    tfmuster("launch", "-n", 1, script, "--an option", cwd=tmp_path)
    folder = only_run(tmp_path) / "tfruns.d"
    properties = {path.name: path.read_text().strip() for path in (folder / "properties").iterdir()}
    assert properties["type"] == "training"
    assert properties["completed"] == "FALSE"
    assert properties["script"].endswith("train.py '--an option'")
    assert float(properties["end"]) >= float(properties["start"]) > 1.7e9
    assert read_json(folder / "metrics.json") == {"loss": [2.0, None]}
    assert read_json(folder / "error.json")["message"] == "ValueError: no luck"


def test_lines_of_a_program_s_own_among_the_metrics_keep_no_run_from_its_end(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "train.py",
        "import os",
        "from tfmuster.tracking.record.lines import append_metrics",
        "append_metrics(1, 1, {'loss': 2.0}, shown=True)",
        "own = open(os.environ['TFMUSTER_RUN_DIR'] + '/metrics.jsonl', 'a')",
        """lines = ['{"epoch": 2, "loss": 1, "note": "warm"}', '[3]', '"x"', '{"epoch": null}', 'no']""",
        "print(*lines, sep='\\n', file=own)",
    )
    assert tfmuster("launch", "-n", 1, script, cwd=tmp_path).returncode == 0
    run = only_run(tmp_path)
    assert read_json(run / "status.json")["state"] == "done"
    assert read_json(run / "tfruns.d" / "metrics.json") == {"loss": [2.0, 1.0]}
    assert "epoch 2  loss 1.0000" in tfmuster("runs", "show", cwd=tmp_path).stdout
