"""What comes from a host is written in the run directory and nowhere else."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfmuster.launcher.remote.agent_connection import AgentConnection, HomeLink, Way, agent_channel
from tfmuster.launcher.remote.proxy import WorkerProxy
from tfmuster.net.channel import Frame, message


@pytest.mark.parametrize(
    "name",
    [
        *("../escape", "/tmp/escape", "a/../../escape", ".", "run.json", "logs/worker-0.log"),
        *("stop", "stop.json", "RUN.json", "status.json", "error.json", "tfruns.d/x/run.json", "report.html"),
        *(
            ".bashrc",
            "a/.hidden/x",
            "call/any-values",
            "call/call.pkl",
            "call/worker-1.pkl",
            "CALL/worker-0.pkl",
            "a/run.json",
            "runs/x/RUN.json",
            "a/call/any-values",
            "arrived.jsonl",
        ),
        *("call/worker-0.pkl/x", "states/worker-1.json", "states/a/worker-0.json", "stacks/wanted"),
    ],
)
def test_a_host_writes_nowhere_but_in_the_run_directory(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("ours")
    given = {"note_path": str(run / "logs/worker-0.error.json"), "job": {"run_dir": str(run)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    stand_in._handle(b"F", b"theirs")
    stand_in._handle(b"J", message("file", path=name).payload)
    assert (run / "run.json").read_text() == "ours"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["run", "run.json"]


@pytest.mark.parametrize(
    "name",
    [
        *("model.keras", "checkpoints/epoch-1.checkpoint", "metrics.jsonl", "a/status.json"),
        *("call/worker-0.value", "call/worker-0.rds", "states/worker-0.json", "states/worker-0.jsonl"),
        "stacks/worker-0.txt",
    ],
)
def test_what_a_worker_writes_arrives(tmp_path: Path, name: str) -> None:
    given = {"note_path": str(tmp_path / "logs/worker-0.error.json"), "job": {"run_dir": str(tmp_path)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    stand_in._handle(b"F", b"theirs")
    stand_in._handle(b"J", message("file", path=name).payload)
    assert (tmp_path / name).read_bytes() == b"theirs"


def whole(content: bytes) -> bytes:
    """A file that is complete also as a checkpoint."""
    return hashlib.sha256(content).digest() + content


def test_a_host_replaces_no_file_of_the_user(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A run directory that its user has chosen may hold more."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    (run / "data").mkdir(parents=True)
    elsewhere.mkdir()
    kept = [run / "train.py", run / "data" / "x", run / "file", tmp_path / "target"]
    for path in kept:
        path.write_text("ours")
    (run / "folder").symlink_to(elsewhere)
    (run / "link").symlink_to(tmp_path / "target")
    continued = ("model.keras", "checkpoints/1.checkpoint", "checkpoints-2/1.checkpoint")
    for name in continued:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("of another run")
    given = {"note_path": str(run / "logs/worker-0.error.json"), "job": {"run_dir": str(run)}}

    def sends(content: bytes, *names: str) -> None:
        stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
        for name in names:
            stand_in._handle(b"F", content)
            stand_in._handle(b"J", message("file", path=name).payload)

    taken = ("train.py", "data/x", "file/x", "folder/x", "folder/a/b", "link")
    # The second time is that of a job that was started again.
    for content in (whole(b"1"), whole(b"2")):
        sends(content, "mine/own.txt", "data/new", *continued, *taken, taken[0])
        for name in ("mine/own.txt", "data/new", *continued):
            assert (run / name).read_bytes() == content
        for name in taken:
            assert (run / "from-worker-0" / name).read_bytes() == content
    assert [path.read_text() for path in kept] == ["ours"] * 4
    assert (run / "link").is_symlink() and list(elsewhere.iterdir()) == []
    said = capfd.readouterr().out
    assert said.count("train.py") == 2
    assert (
        "tfmuster: train.py is kept in from-worker-0: the run directory has another file of this name\n"
        in said
    )


def test_a_name_that_is_not_kept_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = {"note_path": str(tmp_path / "logs/worker-0.error.json"), "job": {"run_dir": str(tmp_path)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    for name in ("stop", "stop", "call/any-values", ".hidden"):
        stand_in._handle(b"J", message("file", path=name).payload)
    assert capfd.readouterr().out == (
        "tfmuster: node1 sent stop, a name that tfmuster uses itself; the file was not kept\n"
    )


def test_its_own_line_is_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A worker's words may end in the middle of a line."""
    given = {"note_path": str(tmp_path / "logs/worker-0.error.json"), "job": {"run_dir": str(tmp_path)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    for name in ("stop", "stop.json"):
        stand_in._handle(b"O", b"met")
        stand_in._handle(b"J", message("file", path=name).payload)
    own = "tfmuster: node1 sent {}, a name that tfmuster uses itself; the file was not kept\n"
    assert capfd.readouterr().out == f"met\n{own.format('stop')}met\n{own.format('stop.json')}"


def test_an_answer_is_sent_after_the_agent_was_asked_to_end_but_no_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"data")
    here, there = socket.socketpair()
    connection = AgentConnection(HomeLink(here.detach(), b"a key"))
    connection.end()
    connection.send_file(str(tmp_path / "data"), "data")
    connection.send(message("came", refused=[]))
    frames: list[Frame] = []
    with there:
        way = Way(there.fileno(), there.fileno(), agent_channel(caller=True, key=b"a key"))
        while len(frames) < 2:
            frames += [frame for frame in way.read() or [] if frame != message("beat")]
    assert frames == [message("end"), message("came", refused=[])]


def test_the_host_hears_what_was_not_kept(tmp_path: Path) -> None:
    sent: list[Frame] = []
    connection = SimpleNamespace(send=sent.append)
    given = {"note_path": str(tmp_path / "logs/worker-0.error.json"), "job": {"run_dir": str(tmp_path)}}
    stand_in = WorkerProxy(connection, "node1", 0.0, given)  # type: ignore[arg-type]
    stand_in._handle(b"J", message("file", path="files/model").payload)
    stand_in._handle(b"J", message("file", path="files/a/run.json").payload)
    stand_in._handle(b"J", message("file", path="files/cut", incomplete=True).payload)
    stand_in._handle(b"J", message("file", path="files/7.checkpoint").payload)
    stand_in._handle(b"J", message("back").payload)
    assert sent == [message("came", refused=["files/a/run.json", "files/cut"])]
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["7.checkpoint", "model"]
