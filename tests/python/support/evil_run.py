"""A run directory whose every text tries to become markup, and a parser that sees it."""

from __future__ import annotations

import html.parser
import json
import time
from pathlib import Path

from tfmuster.tracking.live.states import note_phase
from tfmuster.tracking.run import Run

EVIL = "</pre></title><script>document.title='taken'</script><img src='http://127.0.0.1:{port}/x'>"


def made_run(folder: Path, port: int = 1) -> Run:
    """A run whose program and names try everything to become markup."""
    evil = EVIL.format(port=port)
    now = time.time()
    run = Run(folder / "evil'\"&<b>")
    (run.path / "logs").mkdir(parents=True)
    (run.path / "run.json").write_text(
        json.dumps(
            {
                "name": evil,
                "command": ["python", evil],
                "cluster": {"worker": ["a:1", evil]},
                "started": "2026-01-01T00:00:00.000+00:00",
                "host": evil,
                "versions": {evil: evil},
                "git": {"commit": evil, "changed": True},
            }
        )
    )
    tasks = {f"worker {i}": {"state": evil, "pid": 1, "exit_code": i} for i in range(2)}
    status = {"state": "failed", "restarts": 1, "tasks": tasks, "updated": "2026-01-01T00:01:00.000+00:00"}
    (run.path / "status.json").write_text(json.dumps(status))
    for i in range(2):
        (run.path / "logs" / f"worker-{i}.log").write_text(f"{evil}\n\x00\x1b[31mred\x1b[0m \ud7ff\n")
    (run.path / "error.json").write_text(
        json.dumps(
            {
                "time": "2026-01-01T00:00:30.000+00:00",
                "task": "worker 1",
                "host": evil,
                "exit_code": 1,
                "signal": None,
                "error": evil,
                "traceback": f"Traceback (most recent call last):\n{evil}",
                "last_lines": [evil],
                "log": evil,
            }
        )
    )
    with (run.path / "metrics.jsonl").open("w") as file:
        for epoch in range(1, 6):
            values = {"loss": 1 / epoch, "val_loss": 1.1 / epoch, evil: epoch, "accuracy": 0.1 * epoch}
            file.write(json.dumps({"epoch": epoch, "time": now, **values}) + "\n")
    for task in ("worker 0", "worker 1"):
        for phase in ("started", "waiting", "training", evil, "failed", "started", "training", "done"):
            note_phase(run.path, task, phase)
    return run


class Seen(html.parser.HTMLParser):
    """What a parser of HTML finds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]
