"""The line that launches a run again, as each face writes it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tfmuster.cli import cli
from tfmuster.launcher.command import command_name, script_of
from tfmuster.launcher.engines.base import engine_for, place_for
from tfmuster.launcher.job import Job
from tfmuster.options.table import Control
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.facts import launch_line
from tfmuster.words import Face, speaking


def line(folder: Path, job: Job, face: Face = "shell", **options: bool) -> str:
    run = Run(
        new_run(
            job.run_name,
            run_dir=folder / "run",
            command=job.command,
            cluster={},
            seed=job.seed,
            settings=job.settings(),
        )
    )
    with speaking(face):
        return str(launch_line(run, **options))


def a_job(
    *command: str, backend: str | None = None, where: dict[str, object] | None = None, **more: object
) -> Job:
    settings = {**Control().values(), **more}
    return engine_for(place_for(backend, where or {})).job(command, **settings)


@pytest.mark.parametrize(
    ("face", "written"),
    [
        ("shell", "tfmuster launch -n 2 --distribute text.py --epochs 3 'a b'"),
        ("python", "launch('text.py', '--epochs', '3', 'a b', workers=2, control=Control(distribute=True))"),
        (
            "r",
            'launch("text.py", "--epochs", "3", "a b", workers = 2, '
            "control = launch_control(distribute = TRUE))",
        ),
    ],
)
def test_each_face_writes_its_own_line(tmp_path: Path, face: Face, written: str) -> None:
    job = a_job("text.py", "--epochs", "3", "a b", workers=2, distribute=True)
    assert line(tmp_path, job, face) == written


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "3", "train.py"],
        ["-n", "1", "--max-restarts", "2", "--seed", "5", "--name", "first try", "train.py", "-x", "{index}"],
        [
            "-n",
            "1",
            "--no-keras-compat",
            "--grace",
            "4.5",
            "--env",
            "A=b c",
            "--env",
            "B=",
            "train.R",
            "$HOME",
        ],
        ["-n", "2", "-m", "package.train", "--lr", "-1"],
        ["-n", "2", "--", "train.py", "-H", "node1"],
        ["-n", "2", "--backend", "slurm", "--backend-option=--time=5", "--backend-option=-c 2", "train.py"],
        ["-n", "2", "-H", "node1:1,node2:1", "--file", "a b.csv", "--file", "c", "--copy", "train.py"],
        ["-n", "2", "python", "ok.py"],
    ],
    ids=" ".join,
)
def test_the_line_of_the_shell_launches_the_same(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs: list[Job] = []

    class Made(Exception):
        pass

    def stop(_: object, job: Job) -> None:
        jobs.append(job)
        raise Made

    monkeypatch.setattr("tfmuster.cli.launch._start_and_tell", stop)

    def launched(arguments: list[str]) -> Job:
        with pytest.raises(Made):
            # In the background, because a launcher that waits takes the signals of its process.
            cli.main(["launch", "--detach", *arguments], standalone_mode=False)
        return jobs[-1]

    first = launched(words)
    written = line(tmp_path, first)
    assert shlex.split(written) == ["tfmuster", "launch", *shlex.split(written)[2:]]
    assert launched(shlex.split(written)[2:]).settings() == first.settings()
    assert tuple(jobs[0].command) == tuple(jobs[-1].command)


def test_a_job_in_the_background_has_the_same_line(tmp_path: Path) -> None:
    # The launcher in the background gets the seed, the name and the directory as options.
    job = Job(["train.py"], workers=2, seed=None, name="train", run_dir=tmp_path / "other")
    assert "seed" not in job.launched() and job.changed(workers=3).launched() == {"workers": 3}
    assert job.changed(workers=3).seed == job.seed
    assert line(tmp_path, job) == "tfmuster launch -n 2 train.py"


def test_secrets_are_not_kept_and_values_of_variables_are_not_shown_to_others(tmp_path: Path) -> None:
    env = {"HF_TOKEN": "abc", "OMP_NUM_THREADS": "1"}
    job = a_job("train.py", "--api-key", "xyz", workers=1, env=env, notice_command="check --token=xyz")
    shown = line(tmp_path, job)
    assert "abc" not in shown and "xyz" not in shown
    assert "--env 'HF_TOKEN=***' --env OMP_NUM_THREADS=1" in shown and "--api-key '***'" in shown
    record = tmp_path / "run" / "run.json"
    assert "abc" not in record.read_text() and "xyz" not in record.read_text()
    assert record.stat().st_mode & 0o077 == 0
    with speaking("shell"):
        hidden = str(launch_line(Run(tmp_path / "run"), with_env=False))
    assert "OMP_NUM_THREADS=***" in hidden and "=1" not in hidden


def test_a_function_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "run" / "call").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text('{"command": ["a.py"], "launch": {"workers": 2}}')
    assert launch_line(Run(tmp_path / "run")) is None


@pytest.mark.parametrize(
    ("command", "name", "script"),
    [
        ("ok.py", "ok", "ok.py"),
        ("python ok.py --epochs 3", "ok", "ok.py"),
        ("/usr/bin/python3.11 -W ignore src/ok.py", "ok", "src/ok.py"),
        ("Rscript --vanilla ok.R", "ok", "ok.R"),
        ("bash run.sh train.py", "run", "run.sh"),
        ("python -m package.train x.py", "package.train", None),
        ("python -c print() x.py", "python", None),
        ("-m package.train", "package.train", None),
        ("tfmuster train mnist", "train-mnist", None),
        ("echo ok.py", "echo", None),
    ],
)
def test_the_name_of_a_run_is_that_of_its_script(command: str, name: str, script: str | None) -> None:
    assert command_name(command.split()) == name
    assert script_of(command.split()) == (None if script is None else Path(script))
