"""``tfmuster completion``, and what a shell asks for when a user presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfmuster.cli import main
from tfmuster.tracking.lifecycle.beginning import new_run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    # click asks bash for its version, which is a process.
    monkeypatch.setattr("click.shell_completion.BashComplete._check_version", lambda *_: None)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(("shell", "startup"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_one_command_installs_it_once(
    home: Path, shell: str, startup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    (home / startup).write_text("alias a=b")
    assert main(["completion"]) == main(["completion"]) == 0
    script = home / ".local" / "share" / "tfmuster" / f"completion.{shell}"
    assert (home / startup).read_text() == f"alias a=b\nsource '{script}'\n"
    assert "_TFMUSTER_COMPLETE" in script.read_text()


def test_fish_has_a_folder_of_its_own(home: Path) -> None:
    assert main(["completion", "fish"]) == 0
    assert "tfmuster" in (home / ".config" / "fish" / "completions" / "tfmuster.fish").read_text()


def test_a_shell_that_is_not_known_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/csh")
    assert main(["completion"]) == 2
    assert "Name your shell: tfmuster completion bash|zsh|fish." in capsys.readouterr().err
    assert main(["completion", "bash", "--print"]) == 0
    assert "_TFMUSTER_COMPLETE" in capsys.readouterr().out


def completed(words: str, folder: Path) -> list[str]:
    """What bash offers for the last of these words."""
    done = subprocess.run(
        [sys.executable, "-m", "tfmuster"],
        cwd=folder,
        env={
            **os.environ,
            "_TFMUSTER_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.split()


def test_verbs_options_runs_and_files_are_completed(tmp_path: Path) -> None:
    for name in ("first", "second"):
        new_run("x", run_dir=tmp_path / "runs" / name, command=["x"], cluster={})
    assert completed("tfmuster la", tmp_path) == ["plain,launch"]
    assert completed("tfmuster launch --max", tmp_path) == ["plain,--max-restarts"]
    assert completed("tfmuster launch --backend s", tmp_path) == [
        "plain,ssh",
        "plain,spark",
        "plain,slurm",
        "plain,sge",
    ]
    assert completed("tfmuster runs show f", tmp_path) == ["plain,first"]
    assert completed("tfmuster launch tr", tmp_path) == ["file,tr"]
