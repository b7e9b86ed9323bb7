"""What `tfmuster runs` prints of names and texts that others have chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.cli import main
from tfmuster.system.terminal_text import safe_text
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.layout import append_json, write_json
from tfmuster.tracking.record.recording import record_end
from tfmuster.tracking.run import Run

EVIL = "a\x9b31mb\u202ec\x1b]0;t\x07d"


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["show"],
        ["show", "--json"],
        ["logs"],
        ["logs", "--lines", "1"],
        ["logs", "--task", "none"],
        ["stacks"],
        ["stacks", "--json"],
        ["report"],
        ["stop"],
        ["remove", f"runs/{EVIL}"],
        ["remove", f"runs/{EVIL}", f"runs/{EVIL}-2"],
        ["list", "--runs", EVIL],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("state", ["failed", "starting"])
def test_nothing_that_changes_a_terminal_is_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    state: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (EVIL, f"{EVIL}-2"):
        run = Run(new_run(EVIL, run_dir=Path("runs", name), command=[EVIL], cluster={"worker": [EVIL]}))
        (run.path / "logs" / f"worker-0{EVIL}.log").write_text(f"{EVIL}\n{EVIL}")
        (run.path / "stacks").mkdir()
        (run.path / "stacks" / f"worker-0{EVIL}.txt").write_text(EVIL)
        (run.path / EVIL).touch()
        append_json(run.path / "notes.jsonl", {"about": EVIL, "text": EVIL})
        append_json(run.path / "metrics.jsonl", {"epoch": 1, EVIL: 1})
        if state == "failed":
            error = {"task": EVIL, "error": EVIL, "traceback": EVIL, "last_lines": [EVIL], "host": EVIL}
            record_end(run.path, state, error, tasks={EVIL: {"state": EVIL, "host": EVIL}})
        else:
            # Nobody has this name: the run can't be stopped here.
            write_json(run.path / "run.json", {**run.info(), "host": EVIL})
    main(["runs", *words])
    said = capsys.readouterr()
    shown = said.out + said.err
    # Trailing blanks do no harm.
    assert shown and safe_text(shown) == "\n".join(line.rstrip() for line in shown.split("\n"))
