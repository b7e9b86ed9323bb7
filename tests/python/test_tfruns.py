from __future__ import annotations

from pathlib import Path

from launching import only_run, read_json, tfmuster, write


def test_what_tfruns_reads_is_there(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "train.py",
        "from tfmuster.reporting import append_metrics",
        "append_metrics(1, {'loss': 2.0}, shown=True)",
        "append_metrics(2, {'loss': float('nan')}, shown=True)",
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
