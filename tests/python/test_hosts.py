"""Hosts as they are written, what they and ssh answer, and the frames between: no process, no network."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfmuster import __version__
from tfmuster.errors import LaunchError
from tfmuster.launch.engines.base import Where
from tfmuster.launch.engines.hosts import Host, named_hosts, only_this_machine, parse_hosts, place_tasks
from tfmuster.launch.engines.local import ThisMachine
from tfmuster.launch.engines.registry import engine_for
from tfmuster.launch.engines.ssh import Ssh, parse_addresses
from tfmuster.launch.job import workers_for
from tfmuster.launch.remote.agent_connection import PREAMBLE, agent_channel, channel_problem
from tfmuster.launch.remote.files import files_to_send, script_to_send
from tfmuster.launch.remote.host_checks import clock_warnings, hosts_error, peer_names
from tfmuster.launch.remote.proxy import WorkerProxy
from tfmuster.launch.remote.ssh_faults import explain_ssh_failure
from tfmuster.net.channel import OUTPUT, PROTOCOL, ChannelError, Frame, message, read_message


class TestNames:
    def test_as_horovods_users_write_them(self) -> None:
        assert parse_hosts("node1:2,me@node2:4, node3,[fe80::1]:2,10.0.0.7,node3:2") == (
            Host("node1", 2),
            Host("node2", 4, "me"),
            Host("node3", 3),
            Host("[fe80::1]", 2),
            Host("10.0.0.7"),
        )
        assert [host.target for host in parse_hosts("me@node2:4,[fe80::1]:2")] == ["me@node2", "fe80::1"]

    def test_as_mpi_and_horovod_have_them_in_files(self, tmp_path: Path) -> None:
        path = tmp_path / "hosts"
        path.write_text("# ours\nnode1 slots=2 max_slots=4 # fast\n\nnode2:3\nme@node3\n[::2] slots=2\n")
        assert named_hosts(None, path) == (
            Host("node1", 2),
            Host("node2", 3),
            Host("node3", 1, "me"),
            Host("[::2]", 2),
        )

    @pytest.mark.parametrize(
        "host",
        [
            "-oProxyCommand=touch pwned",
            "a@-oProxyCommand=x",
            "$(touch pwned)",
            "`touch pwned`",
            "a b",
            "a;b",
            "a\nb",
            "a\0b",
            "a|b",
            "",
            "@",
            "user@",
            "ü",
            "a/b",
            "x" * 300,
        ],
    )
    def test_what_is_no_host_is_refused(self, host: str, tmp_path: Path) -> None:
        with pytest.raises(LaunchError, match="can't be used") as caught:
            parse_hosts(f"node1,{host}")
        assert str(caught.value.found).startswith("-H, entry 2: ")
        assert str(caught.value.found).isprintable()

    @pytest.mark.parametrize("user", ["-l", "$(x)", "a b", "a'b", ""])
    def test_what_is_no_user_is_refused(self, user: str) -> None:
        with pytest.raises(LaunchError, match="can't be used"):
            parse_hosts(f"{user}@node1")

    def test_every_problem_is_said_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "hosts"
        path.write_text("node1 slots=two\nnode 2\nnode3\nnode4:0\n")
        with pytest.raises(LaunchError) as caught:
            named_hosts(None, path)
        assert str(caught.value) == (
            "The hosts can't be used.\n"
            f"  found: {path}, line 1: 'two' is no number of slots (1 to 9999)\n"
            f"         {path}, line 2: 'node 2' is no host name\n"
            f"         {path}, line 4: '0' is no number of slots (1 to 9999)\n"
            "  to do: Write them as node1:2,node2:2 (name:slots), or one a line in --hostfile."
        )

    @pytest.mark.parametrize("content", [None, "", "# nothing\n", b"\xff\xfe"])
    def test_a_file_without_hosts(self, tmp_path: Path, content: str | bytes | None) -> None:
        path = tmp_path / "hosts"
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(LaunchError):
            named_hosts(None, path)

    def test_both_ways_at_once(self) -> None:
        with pytest.raises(LaunchError, match="named by -H or by --hostfile"):
            named_hosts("a", "b")

    def test_tasks_fill_a_host_before_the_next(self) -> None:
        hosts = parse_hosts("a:2,b:2")
        sizes = {"chief": 1, "worker": 2, "ps": 0, "evaluator": 1}
        assert [(job, index, host.name) for job, index, host in place_tasks(sizes, hosts)] == [
            ("chief", 0, "a"),
            ("worker", 0, "a"),
            ("worker", 1, "b"),
            ("evaluator", 0, "b"),
        ]
        with pytest.raises(LaunchError) as caught:
            place_tasks({"worker": 5}, hosts)
        assert str(caught.value) == (
            "The hosts must have a slot for every task.\n"
            "  found: 5 tasks, 4 slots on a, b\n"
            "  to do: Give more slots (-H node1:2,node2:2), or start fewer workers (-n)."
        )

    def test_how_many_workers(self) -> None:
        assert workers_for(None, None, others=0) == 2
        assert workers_for(None, 4, others=1) == 3
        assert workers_for(1, 4, others=0) == 1

    def test_this_machine_needs_no_ssh(self) -> None:
        assert only_this_machine(parse_hosts("localhost:4"))
        assert not only_this_machine(parse_hosts("node1:4,node2"))
        with pytest.raises(LaunchError) as caught:
            only_this_machine(parse_hosts("127.0.0.1,node2"))
        assert caught.value.found == "127.0.0.1 together with other hosts"


class TestEngines:
    @pytest.mark.parametrize(
        ("where", "found", "fix"),
        [
            ({"backend": "horovod"}, None, "Choose one of local, ssh"),
            ({"backend": "ssh"}, "none", "Name them: -H node1:2,node2:2, or --hostfile."),
            (
                {"backend": "local", "hosts": "a,b"},
                "hosts a, b",
                "Leave the hosts out, or choose the backend ssh.",
            ),
            # The job would run elsewhere, or otherwise, than is meant.
            ({"master": "local[2]"}, "no backend", "Name the backend, or leave it out."),
            ({"backend": "slurm", "spark": object()}, "the backend slurm", "Name the backend"),
            ({"hosts": "a,b", "backend_options": ["-x"]}, "no backend", "Name the backend"),
        ],
    )
    def test_refused(self, where: dict[str, Any], found: str | None, fix: str) -> None:
        with pytest.raises(LaunchError) as caught:
            engine_for(Where(**where))
        assert caught.value.found == found
        assert str(caught.value.fix).startswith(fix)

    def test_chosen_by_the_hosts(self) -> None:
        assert engine_for(Where()) == engine_for(Where(backend="local")) == ThisMachine()
        here = engine_for(Where(hosts="localhost:3"))
        assert isinstance(here, ThisMachine) and here.slots == 3
        assert engine_for(Where(hosts="a:2,b", backend="ssh")).slots == 3


class TestOptions:
    HOSTS = parse_hosts("node1:2,me@node2")

    def test_only_the_path_of_a_python_is_a_remote_command(self) -> None:
        where = Ssh(Where(remote_python="/o p/$(x)/python"), self.HOSTS)
        *_, dashes, host, command = where.agent_command(self.HOSTS[1], 60)
        assert (dashes, host) == ("--", "me@node2")
        assert command.startswith("'/o p/$(x)/python' -c 'import sys;")

    @pytest.mark.parametrize("python", ["-c", "a\nb", "--version"])
    def test_what_is_no_python_is_refused(self, python: str) -> None:
        with pytest.raises(LaunchError, match="path or the name of a command"):
            Ssh(Where(remote_python=python), self.HOSTS)

    @pytest.mark.parametrize(
        "text", ["node3=10.0.0.3", "node1", "node1=", "node1=a b", "node1=-x", "node1=a:1"]
    )
    def test_what_is_no_address_is_refused(self, text: str) -> None:
        with pytest.raises(LaunchError, match="by which the others reach it"):
            Ssh(Where(addresses=parse_addresses([text])), self.HOSTS)

    def test_a_given_address_is_the_only_one(self) -> None:
        where = Ssh(Where(addresses=parse_addresses(["node1=10.0.0.1"])), self.HOSTS)
        assert where.names(self.HOSTS[0]) == ["10.0.0.1"]


def hello(**more: Any) -> dict[str, Any]:
    versions = {"tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11"}
    names = {"a": ["a"], "b": ["b"], "c": ["c"]}
    return {
        "tfmuster": __version__,
        "versions": versions,
        "ahead": 0.1,
        "names": names,
        "problem": None,
        **more,
    }


NAMES = {"a": ["a"], "b": ["b"], "c": ["c", "10.0.0.3"]}


class TestAnswers:
    def test_all_is_well(self) -> None:
        hellos = {"a": hello(), "b": hello(), "c": hello()}
        assert hosts_error(hellos, NAMES) is None
        assert clock_warnings(hellos) == []

    def test_versions_are_compared_with_what_most_have(self) -> None:
        old = {"tensorflow": "2.19.0", "keras": "none", "python": "3.11"}
        error = hosts_error({"a": hello(versions=old), "b": hello(tfmuster="0.0.9"), "c": hello()}, NAMES)
        assert str(error) == (
            "2 of the 3 hosts can't take part.\n"
            "  found: a: TensorFlow 2.19.0, the others TensorFlow 2.21.0\n"
            "         a: no Keras, the others Keras 3.15.1\n"
            f"         b: tfmuster 0.0.9, here {__version__}\n"
            "  to do: a: install the same TensorFlow on every host\n"
            "         a: install the same Keras on every host\n"
            f"         b: install tfmuster {__version__} there"
        )
        assert error is not None
        assert [finding["code"] for finding in error.fields["findings"]] == [
            "tensorflow-version",
            "keras-version",
            "tfmuster-version",
        ]

    def test_the_best_name_that_all_know(self) -> None:
        other = hello(names={"a": ["a"], "b": ["b"], "c": ["10.0.0.3"]})
        both = hello(names={"a": ["a"], "b": ["b"], "c": ["c", "10.0.0.3"]})
        assert peer_names({"a": both, "b": other, "c": both}, NAMES) == {"a": "a", "b": "b", "c": "10.0.0.3"}

    def test_a_name_that_one_does_not_know(self) -> None:
        blind = hello(names={"a": ["a"], "b": ["b"], "c": []})
        error = hosts_error({"a": blind, "b": hello(), "c": hello()}, NAMES)
        assert str(error) == (
            "1 of the 3 hosts can't take part.\n"
            "  found: c: c and 10.0.0.3 can't be looked up on a\n"
            "  to do: c: say how the others reach it: --address c=ADDRESS"
        )

    def test_versions_of_r_where_one_is_used(self) -> None:
        def with_r(version: str | None) -> dict[str, Any]:
            return hello(versions={**hello()["versions"], **({"r": version} if version else {})})

        error = hosts_error({"a": with_r("4.2"), "b": with_r("4.2"), "c": with_r("3.1")}, NAMES)
        assert error is not None
        assert error.found == "c: R 3.1, the others R 4.2"
        # Where there is none, that has been said as a problem of the command.
        assert hosts_error({"a": with_r("4.2"), "b": with_r("4.2"), "c": with_r(None)}, NAMES) is None

    def test_clocks(self) -> None:
        assert clock_warnings({"a": hello(ahead=7.0), "b": hello(ahead=-7300.0), "c": hello(ahead=4.0)}) == [
            "the clock of a is 7 s ahead; the times in its log are by that clock.",
            "the clock of b is 2.0 h behind; the times in its log are by that clock.",
        ]


@pytest.mark.parametrize(
    ("said", "code", "name"),
    [
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            255,
            "host-key-changed",
        ),
        ("Host key verification failed.", 255, "host-key-unknown"),
        (
            "No ED25519 host key is known for node1 and you have requested strict checking.",
            255,
            "host-key-unknown",
        ),
        ("me@node1: Permission denied (publickey).", 255, "no-login"),
        ("ssh: Could not resolve hostname node1: Name or service not known", 255, "name-unknown"),
        ("ssh: connect to host node1 port 22: Connection refused", 255, "no-sshd"),
        ("ssh: connect to host node1 port 22: Connection timed out", 255, "unreachable"),
        ("kex_exchange_identification: read: Connection reset by peer", 255, "busy"),
        ("bash: line 1: /x/python: No such file or directory", 127, "no-python"),
        ("zsh:1: permission denied: /x/python", 126, "no-python"),
        ("ModuleNotFoundError: No module named 'tfmuster'", 1, "no-tfmuster"),
        ("ModuleNotFoundError: No module named 'orjson'", 1, "no-module"),
        ("This account is currently not available.", 1, "no-agent"),
        ("", None, "no-agent"),
    ],
)
def test_what_ssh_says_in_words(said: str, code: int | None, name: str) -> None:
    found = explain_ssh_failure("node1", said, code, 60)
    assert found["code"] == name
    assert found["message"] and found["fix"] and "{" not in found["message"] + found["fix"]


class TestFrames:
    def test_what_a_login_shell_prints_is_no_frame(self) -> None:
        sender, receiver = agent_channel(caller=False), agent_channel(caller=True, preamble=PREAMBLE)
        noise = b"Welcome!\n" + sender.pack(Frame(OUTPUT, b"x"))
        data = noise + PREAMBLE + sender.pack(message("hello", port=1)) + sender.pack(Frame(OUTPUT, b"out"))
        seen = [each for i in range(len(data)) for each in receiver.unpack(data[i : i + 1])]
        assert receiver.noise == noise
        assert [kind for kind, _ in seen] == [b"J", b"O"]
        assert read_message(seen[0].payload) == {"type": "hello", "port": 1}

    @pytest.mark.parametrize(
        "data",
        [
            b"HTTP/1.1 400",
            struct.pack(">2sBcBI", b"tm", PROTOCOL, b"J", 0, 0xFFFFFFFF),
            struct.pack(">2sBcBI", b"tm", PROTOCOL, b"O", 0, (32 << 20) + 1),
            struct.pack(">2sBcBI", b"tm", PROTOCOL, b"X", 0, 1),
        ],
    )
    def test_what_is_no_frame_is_refused(self, data: bytes) -> None:
        with pytest.raises(ChannelError):
            agent_channel(caller=True).unpack(data)

    def test_text_without_end_is_refused(self) -> None:
        with pytest.raises(ChannelError) as caught:
            agent_channel(caller=True, preamble=PREAMBLE).unpack(b"y\n" * 40_000)
        assert channel_problem(caught.value) == "no agent answers, only text"

    @given(st.lists(st.tuples(st.sampled_from([b"J", b"O", b"F"]), st.binary())), st.integers(1, 9))
    def test_frames_arrive_as_they_were_sent(self, sent: list[tuple[bytes, bytes]], size: int) -> None:
        sender, receiver = agent_channel(caller=True), agent_channel(caller=False)
        data = b"".join(sender.pack(Frame(*each)) for each in sent)
        assert [
            each for i in range(0, len(data), size) for each in receiver.unpack(data[i : i + size])
        ] == sent

    @given(st.binary(max_size=40))
    def test_any_bytes_are_frames_or_refused(self, data: bytes) -> None:
        try:
            for kind, payload in agent_channel(caller=True).unpack(data):
                if kind == b"J":
                    read_message(payload)
        except ChannelError:
            pass


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


@pytest.mark.parametrize(
    "name", ["../escape", "/tmp/escape", "a/../../escape", "run.json", "logs/worker-0.log"]
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
