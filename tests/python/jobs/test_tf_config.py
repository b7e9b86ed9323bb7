"""TF_CONFIG in the environment of child processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tfmuster import Cluster, current_task, tf_config_json, use_tf_config
from tfmuster.cluster.tf_config import LONGEST_IN_ENVIRONMENT
from tfmuster.errors import TfmusterWarning


def test_use_reaches_this_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    task = Cluster(worker=["a:1", "b:1"]).task("worker", 1)
    assert current_task() is None
    text = use_tf_config(task)
    assert os.environ["TF_CONFIG"] == text == tf_config_json(task)
    assert current_task() == task
    child = [sys.executable, "-c", "import os; print(os.environ['TF_CONFIG'])"]
    assert (
        subprocess.run(child, capture_output=True, text=True, timeout=60, check=True).stdout.strip() == text
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
def test_the_limit_of_the_environment_is_linux_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "x" * LONGEST_IN_ENVIRONMENT)
    subprocess.run(["true"], timeout=60, check=True)
    monkeypatch.setenv("TF_CONFIG", "x" * (LONGEST_IN_ENVIRONMENT + 1))
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true"], timeout=60, check=True)
    cluster = Cluster(worker=[f"node-{i}.example.org:2222" for i in range(6000)])
    with pytest.warns(TfmusterWarning, match="128 KiB"):
        use_tf_config(cluster.task("worker", 0))
