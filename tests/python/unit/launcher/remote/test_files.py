"""Files on their way to a host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.remote.files import files_to_send, script_to_send
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    """The texts below are those of the command line."""
    with speaking("shell"):
        yield


class TestSending:
    def test_each_file_keeps_its_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        here = tmp_path / "here"
        for name in ("a.py", "data/x.npz", "data/deep/-y", "../other/z", "../other/more/z"):
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_text(name)
        monkeypatch.chdir(here)
        assert files_to_send(["a.py", "./data/", here / "data/x.npz", "../other/z"]) == [
            ("a.py", "a.py"),
            ("data/deep/-y", "data/deep/-y"),
            ("data/x.npz", "data/x.npz"),
            ("../other/z", "z"),
        ]
        assert sorted(files_to_send(["../other"])) == [
            ("../other/more/z", "other/more/z"),
            ("../other/z", "other/z"),
        ]
        assert script_to_send(here / "a.py") == (str(here / "a.py"), "a.py")

    @pytest.mark.parametrize(
        ("names", "found"),
        [
            (["gone"], "gone: No such file or directory"),
            (["pipe"], "pipe is neither a file nor a folder"),
            ([b"\xff.py"], "b'\\xff.py': the name is no UTF-8"),
            (["../z", "z"], "../z and z, both as z"),
        ],
    )
    def test_what_can_not_be_sent(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list, found: str
    ) -> None:
        here = tmp_path / "here"
        here.mkdir()
        monkeypatch.chdir(here)
        os.mkfifo("pipe")
        for name in (b"\xff.py", b"../z", b"z"):
            Path(os.fsdecode(name)).write_text("")
        with pytest.raises(LaunchError) as caught:
            files_to_send(map(os.fsdecode, names))
        assert (caught.value.message, caught.value.found) == ("--file sends files and folders.", found)

    @pytest.mark.parametrize("name", ["train.sh", "gone.py"])
    def test_what_is_no_script_to_send(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(LaunchError):
            script_to_send(tmp_path / name)
