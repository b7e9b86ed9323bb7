"""Programs that are asked something: their answers, and those that give none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.launching import nothing_left
from tfmuster.diagnostics import doctor
from tfmuster.system.ask import NoAnswerError, ask
from tfmuster.system.interpreter import r_version
from tfmuster.tracking.lifecycle.beginning import record_git
from tfmuster.tracking.run import Run


def plant(folder: Path, name: str, *lines: str) -> str:
    """A program of this name, and a PATH that begins with it."""
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def test_an_answer() -> None:
    code = "read word; echo $word $SAID; echo b >&2; exit 3"
    answer = ask("/bin/sh", "-c", code, seconds=30, env={"SAID": "two"}, input="one")
    assert (answer.code, answer.output, answer.errors) == (3, "one two\n", "b\n")
    assert answer.first_line == "one two"


def test_no_answer_in_time_ends_all_that_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = plant(tmp_path, "slow", "sleep 300 &", "exec sleep 300")
    begun = time.monotonic()
    with pytest.raises(NoAnswerError, match=r"slow does not answer within 0\.3 s"):
        ask("slow", seconds=0.3, env={"PATH": path})
    assert in_time(begun, 20)
    nothing_left(tmp_path)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(NoAnswerError, match="no-such-program can't be started: No such file"):
        ask("no-such-program", seconds=5)


def test_a_program_given_as_text_is_named_in_short() -> None:
    with pytest.raises(NoAnswerError) as caught:
        ask(sys.executable, "-c", "import time\ntime.sleep(300)\n" + "# much\n" * 500, seconds=0.1)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        (["echo 'Rscript (R) version 4.5.1 (2025-06-13)'"], "4.5"),
        (["echo 'R scripting front-end version 4.2.2 (2022-10-31)' >&2"], "4.2"),
        (["echo nothing"], None),
    ],
)
def test_the_version_of_r(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], version: str | None
) -> None:
    monkeypatch.delenv("R_HOME", raising=False)
    monkeypatch.setenv("PATH", plant(tmp_path, "Rscript", *lines))
    assert r_version() == version


def test_an_r_that_does_not_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("R_HOME", raising=False)
    monkeypatch.setenv("PATH", plant(tmp_path, "Rscript", "echo 'libR.so: no such file' >&2", "exit 127"))
    r = doctor.doctor(devices=False)["r"]
    assert r["version"] is None
    assert r["problem"].endswith("bin/Rscript ends with exit code 127: libR.so: no such file")


def test_a_tensorflow_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no libcudart')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor.doctor(devices=True)["devices"]
    assert found == "TensorFlow does not start: ImportError: no libcudart"


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, timeout=30, check=True
    ).stdout.strip()


def test_the_commit_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    run = Run(tmp_path)
    (tmp_path / "run.json").write_text('{"name": "train"}')
    record_git(run.path)
    assert run.info() == {"name": "train"}
    git(tmp_path, "init", "--quiet")
    record_git(run.path)
    # A repository without a commit.
    assert run.info() == {"name": "train"}
    (tmp_path / "train.py").write_text("pass\n")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    record_git(run.path)
    assert run.info()["git"] == {"commit": commit, "changed": False}
    (tmp_path / "train.py").write_text("print()\n")
    record_git(run.path)
    assert run.info()["git"] == {"commit": commit, "changed": True}
    git(tmp_path, "checkout", "--quiet", "train.py")
    record_git(run.path)
    assert run.info()["git"] == {"commit": commit, "changed": False}
    monkeypatch.setenv("PATH", "")
    record_git(run.path)
    assert run.info()["git"] == {"commit": commit, "changed": False}


def test_the_commit_is_that_of_the_scripts_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, run = tmp_path / "project", Run(tmp_path)
    (project / "src").mkdir(parents=True)
    (project / "src" / "train.py").touch()
    (tmp_path / "run.json").write_text('{"name": "train"}')
    git(project, "init", "--quiet")
    git(project, "add", "src")
    git(project, "commit", "--quiet", "--message", "first")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    # Git is asked once.
    asked = tmp_path / "asked"
    real = shutil.which("git")
    monkeypatch.setenv("PATH", plant(tmp_path, "git", f"echo asked >>{asked}", f'exec {real} "$@"'))
    record_git(run.path, Path("project/src/train.py"))
    assert asked.read_text() == "asked\n"
    assert run.info()["git"]["changed"] is False
    # Files that Git does not know are no changes, but for the script.
    for name in ("src/new.py", "lib/new.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
        record_git(run.path, Path("project/src/train.py"))
        assert run.info()["git"]["changed"] is False
        record_git(run.path, project / name)
        assert run.info()["git"]["changed"] is True
    record_git(run.path)
    assert asked.read_text() == "asked\n" * 5
