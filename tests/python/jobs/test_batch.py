"""The job of a batch system, where a program of it is asked first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.batch_systems import SYSTEMS
from support.launching import environment
from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.base import engine_for, place_for
from tfmuster.launcher.job import Job


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_inner_launcher_gets_all_but_the_options_of_the_batch_system(name: str) -> None:
    where = place_for(name, {"backend_options": "-x", "files": "a b", "remote_python": "/opt/python"})
    script = engine_for(where).script(Job(["train.py", "it's"], workers=1))  # type: ignore[attr-defined]
    inner = script[script.index("/opt/python -c ") :]
    assert f"--backend={name} '--file=a b' --remote-python=/opt/python -- train.py 'it'\"'\"'s'" in inner
    assert "-x" not in inner


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("python", [None, sys.executable])
def test_the_batch_job_imports_nothing_from_its_folder(name: str, python: str | None, tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("print('imported')")
    where = place_for(name, {"remote_python": python})
    script = engine_for(where).script(Job(["program.py"], workers=1))  # type: ignore[attr-defined]
    [line] = [line for line in script.splitlines() if " launch --quiet " in line]
    command = line[line.index(sys.executable) : line.index(" launch --quiet ")]
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} doctor --json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "imported" not in done.stdout and done.stdout.startswith("{"), done.stdout + done.stderr


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_batch_job_that_is_not_recognized_submits_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = engine_for(place_for(name, {})).script(Job(["true"], workers=1))  # type: ignore[attr-defined]
    variable, _, value = script.partition("export ")[2].partition("\n")[0].partition("=")
    monkeypatch.setenv(variable, value)
    with pytest.raises(LaunchError, match="must find the variables of") as refused:
        engine_for(place_for(name, {})).submit(Job(["true"], workers=1, run_dir=tmp_path / "run"))
    assert refused.value.fields["reason"] == "batch"
    assert not (tmp_path / "run").exists()
