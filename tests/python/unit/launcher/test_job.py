"""What a job's command is, and what is said of one that can't be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.command import resolve_command
from tfmuster.launcher.job import Job
from tfmuster.launcher.supervise.restarts import Attempt
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.recording import record_end
from tfmuster.tracking.run import Run
from tfmuster.words import speaking


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("churn", "Did you mean churn.R or churn.py? "),
        ("notes", "Did you mean notes.ipynb? "),
        ("trian.py", "Did you mean train.py? "),
        ("train.R", "Did you mean train.py? "),
        ("folder/tests", "Did you mean folder/test.py? "),
        ("absent/train", ""),
        ("else", ""),
        ("gone.py", ""),
    ],
)
def test_a_script_with_a_similar_name_is_suggested(
    given: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("churn.py", "churn.R", "churn.csv", "train.py", "notes.ipynb", "folder/test.py"):
        (tmp_path / name).touch()
    with pytest.raises(LaunchError) as caught:
        resolve_command([given])
    what = "Check the path" if Path(given).suffix else "Give the path"
    assert (caught.value.fix or "").startswith(asked + what)


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("run.sh", "Make it executable (chmod +x run.sh) and write ./run.sh, or launch it by its shell: "),
        ("./run.sh", "Make it executable (chmod +x ./run.sh), or launch it by its shell: "),
    ],
)
def test_a_shell_script_that_is_not_executable(
    given: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").touch()
    with pytest.raises(LaunchError) as caught, speaking("shell"):
        resolve_command([given])
    assert caught.value.found == f"{given} is not executable"
    assert caught.value.fix == f"{fix}tfmuster launch [OPTIONS] -- bash {given}"


@pytest.mark.parametrize(
    ("here", "of_job", "seed"),
    [
        (None, {}, "0"),
        ("random", {}, "0"),
        ("", {}, "0"),
        ("5", {}, "5"),
        ("5", {"PYTHONHASHSEED": "6"}, "6"),
    ],
)
def test_all_workers_have_one_hash_seed_which_a_resumed_run_keeps(
    here: str | None, of_job: dict[str, str], seed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if here is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", here)
    command = ["train.py"]
    job = Job(command=command, env=of_job, run_dir=tmp_path / "run")
    assert job.variables(Attempt(0, 0))["PYTHONHASHSEED"] == seed
    run = Run(new_run("train", run_dir=job.run_dir, command=command, cluster={}, settings=job.settings()))
    record_end(run.path, "failed")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    assert Job(command=command, run_dir=run.path).hash_seed == seed
    record_end(run.path, "done")
    assert Job(command=command, run_dir=run.path).hash_seed == "7"
