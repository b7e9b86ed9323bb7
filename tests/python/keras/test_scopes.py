"""Models made outside of the scope train with the strategy of their weights, and only the chief writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.launching import environment, only_run, tfmuster
from support.paths import PROGRAMS
from tfmuster.system.interpreter import with_tfmuster_on_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
FILES = ["archive", "exported", "function.h5", "function.keras", "log.csv", "own.keras"]
FILES += ["saved.keras", "saved.weights.h5"]


def said(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(word)]


def test_a_model_made_before_the_scope_trains_on_all_workers(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAMS / "unscoped.py", "workers", cwd=tmp_path, limit=300)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [path.read_text() for path in sorted((only_run(tmp_path) / "logs").glob("worker-*.log"))]
    for log in logs:
        assert said(log, "refused") == ["refused made-outside 2 of 2 weights belong to no strategy"]
        assert said(log, "strategy True weights"), log
    assert said(logs[0], "strategy") == said(logs[1], "strategy")
    assert said(logs[0], "steps 6 mae")
    assert said(logs[0], "steps") == said(logs[1], "steps")
    assert said(logs[0], "files") == [f"files {FILES}"]
    assert said(logs[1], "files") == ["files ['own.keras']"]


def test_a_model_made_before_the_scope_trains_on_all_devices(tmp_path: Path) -> None:
    code = (
        "import sys, runpy, tensorflow as tf; from tfmuster.keras_compat import install\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)\n"
        "install(); sys.argv = ['unscoped.py', 'mirrored']\n"
        f"runpy.run_path({str(PROGRAMS / 'unscoped.py')!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=with_tfmuster_on_path(environment(TF_CPP_MIN_LOG_LEVEL="3")),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert said(done.stdout, "refused") == ["refused made-outside 2 of 2 weights belong to no strategy"]
    assert said(done.stdout, "strategy True weights")
    assert said(done.stdout, "steps 6 mae")
    assert said(done.stdout, "files") == [f"files {FILES}"]
