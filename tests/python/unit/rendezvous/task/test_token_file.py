"""The secret of tasks that are started without a launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.cluster.spec import Cluster
from tfmuster.errors import TfmusterError
from tfmuster.rendezvous.task.token_file import make_token_file, token_of_file, token_of_home, token_path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_it_is_made_once_and_is_private(home: Path) -> None:
    assert token_of_file() is None
    path = make_token_file()
    assert path == token_path() == home / ".config" / "tfmuster" / "token"
    assert path.stat().st_mode & 0o777 == 0o600
    secret = token_of_file()
    assert secret is not None and len(secret) == 64
    make_token_file()
    assert token_of_file() == secret


@pytest.mark.parametrize(
    ("addresses", "made"),
    [(["localhost:1", "127.0.0.1:2"], True), (["a:1", "b:2"], False), (["localhost:1"], False)],
)
def test_only_tasks_of_one_machine_make_it(addresses: list[str], made: bool) -> None:
    cluster = Cluster(worker=addresses)
    assert (token_of_home(cluster) is not None) == made
    secret = make_token_file().read_text().strip()
    assert token_of_home(cluster) == secret


def test_a_home_that_can_not_be_written_to_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/proc/nothing")
    assert token_of_home(Cluster(worker=["localhost:1", "localhost:2"])) is None


def test_a_file_that_others_can_read_is_refused() -> None:
    path = make_token_file()
    path.chmod(0o640)
    for use in (token_of_file, make_token_file):
        with pytest.raises(TfmusterError, match="must be yours alone") as caught:
            use()
        assert "mode 0640" in str(caught.value)


@pytest.mark.parametrize("text", ["short", "", "\n"])
def test_a_file_without_a_secret_is_refused(text: str) -> None:
    path = make_token_file()
    path.write_text(text)
    with pytest.raises(TfmusterError, match="at least 16 characters"):
        token_of_file()


def test_a_file_that_is_no_text_is_refused() -> None:
    make_token_file().write_bytes(b"\xff\xfe" * 20)
    with pytest.raises(TfmusterError, match="can't be read"):
        token_of_file()


def test_no_place_to_write_is_named(home: Path) -> None:
    (home / ".config").write_text("a file")
    with pytest.raises(TfmusterError, match="can't be written"):
        make_token_file()
