"""Reading the values of a run runs no code of other users or machines."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tfmuster.errors import TfmusterError
from tfmuster.tracking.record.ownership import check_owner
from tfmuster.tracking.values import check_r_result, error_of, values_of
from tfmuster.tracking.values.plain_values import write_plain

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
NOBODY = 65534


class Evil:
    """Its pickle leaves a trace when it is read."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path(os.environ["TRACE"]),)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory with a value that runs code when it is read."""
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    folder = tmp_path / "run"
    (folder / "call").mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "call").chmod(0o700)
    path = folder / "call" / "worker-0.pkl"
    path.write_bytes(pickle.dumps({"value": Evil()}))
    path.chmod(0o600)
    return folder


def trusted(run: Path) -> Path:
    (run / "call" / "any-values").touch()
    return run


def refused(run: Path, reason: str) -> TfmusterError:
    for read in (lambda: values_of(run, ["worker 0"]), lambda: error_of(run, "worker 0")):
        with pytest.raises(TfmusterError) as caught:
            read()
        assert caught.value.fields["reason"] == reason
    assert not Path(os.environ["TRACE"]).exists()
    return caught.value


def test_a_pickle_of_this_machine_is_read(run: Path) -> None:
    values_of(trusted(run), ["worker 0"])
    assert Path(os.environ["TRACE"]).exists()


def test_a_pickle_of_another_machine_is_not(run: Path) -> None:
    assert "trust_hosts" in str(refused(run, "not-plain"))


def test_a_damaged_value_of_another_machine_is_named(run: Path) -> None:
    (run / "call" / "worker-0.value").write_bytes(b"no archive")
    assert "worker-0.value" in str(refused(run, "not-plain"))


def test_a_plain_value_is_read_whoever_wrote_it(run: Path) -> None:
    with (run / "call" / "worker-1.value").open("wb") as file:
        write_plain(file, {"value": [1, "a"]})
    with (run / "call" / "worker-2.value").open("wb") as file:
        write_plain(file, {"error": {"type": "KeyError", "args": ["digit"]}})
    run.chmod(0o777)
    assert values_of(run, ["worker 1", "worker 2", "worker 3"]) == {"worker 1": [1, "a"]}
    error = error_of(run, "worker 2")
    assert (type(error), error.args) == (KeyError, ("digit",))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("call", 0o770),
        ("call", 0o707),
        ("call/worker-0.pkl", 0o660),
        ("call/worker-0.pkl", 0o606),
        (".", 0o777),
    ],
)
def test_what_others_can_write_is_not_read(run: Path, name: str, mode: int) -> None:
    trusted(run)
    (run / name).chmod(mode)
    assert f"(mode {mode:o})" in str(refused(run, "foreign"))


@pytest.mark.parametrize("mode", [0o775, 0o2775, 0o1777 & ~0o002])
def test_a_run_directory_may_be_shared_with_a_group(run: Path, mode: int) -> None:
    run.chmod(mode)
    values_of(trusted(run), ["worker 0"])


@as_root
@pytest.mark.parametrize("name", [".", "call", "call/worker-0.pkl"])
def test_what_another_user_owns_is_not_read(run: Path, name: str) -> None:
    trusted(run)
    os.chown(run / name, NOBODY, NOBODY)
    assert "it belongs to nobody, and you are root" in str(refused(run, "foreign"))
    with pytest.raises(TfmusterError, match="belongs to nobody"):
        check_owner(run / name)


def test_no_file_is_nobodys(tmp_path: Path) -> None:
    check_owner(tmp_path / "missing")


class TestOfR:
    def test_what_another_machine_has_sent(self, run: Path) -> None:
        path = run / "call" / "worker-0.rds"
        path.write_bytes(b"X\n" + b"\x00\x00\x00\x02" + bytes(8) + b"\x00\x00\x00\x05")
        with pytest.raises(TfmusterError) as caught:
            check_r_result(run, path)
        assert caught.value.fields["reason"] == "not-plain"
        assert "a promise in" in str(caught.value)
        check_r_result(trusted(run), path)

    def test_what_others_can_write(self, run: Path) -> None:
        path = trusted(run) / "call" / "worker-0.rds"
        path.touch()
        path.chmod(0o666)
        with pytest.raises(TfmusterError) as caught:
            check_r_result(run, path)
        assert caught.value.fields["reason"] == "foreign"
