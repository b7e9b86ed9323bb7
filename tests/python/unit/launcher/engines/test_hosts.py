"""Hosts as users write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.hosts import (
    Host,
    named_hosts,
    only_this_machine,
    parse_hosts,
    place_tasks,
    read_hostfile,
)
from tfmuster.launcher.engines.local import ThisMachine
from tfmuster.options.table import Control
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    """The texts below are those of the command line."""
    with speaking("shell"):
        yield


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
            f"  found: {path}, line 1: 'two' is not a number of slots (1 to 1024)\n"
            f"         {path}, line 2: 'node 2' is not a host name\n"
            f"         {path}, line 4: '0' is not a number of slots (1 to 1024)\n"
            "  to do: Write them as node1:2,node2:2 (name:slots), or one per line in --hostfile."
        )

    def test_a_port_is_not_taken_for_slots(self) -> None:
        with pytest.raises(LaunchError, match=r"'2200' is not a number of slots .* into ~/.ssh/config"):
            parse_hosts("node1,node2:2200")

    @pytest.mark.parametrize("content", [None, "", "# nothing\n", b"\xff\xfe"])
    def test_a_file_without_hosts(self, tmp_path: Path, content: str | bytes | None) -> None:
        path = tmp_path / "hosts"
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(LaunchError):
            named_hosts(None, path)

    def test_both_ways_at_once(self) -> None:
        with pytest.raises(LaunchError, match="Give the hosts by -H or by --hostfile"):
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
            "  to do: Give the hosts more slots (-H node1:2,node2:2), or start fewer workers (-n 4)."
        )

    def test_how_many_workers(self) -> None:
        def workers(machine: ThisMachine, number: int | None = None, **control: Any) -> int:
            return machine.job(["true"], workers=number, **Control(**control).values()).workers

        four = ThisMachine(hosts=parse_hosts("localhost:4"))
        assert workers(ThisMachine()) == 2
        assert workers(four, ps=1) == 3
        assert workers(four, 1) == 1

    def test_this_machine_needs_no_ssh(self) -> None:
        assert only_this_machine(parse_hosts("localhost:4"))
        assert not only_this_machine(parse_hosts("node1:4,node2"))
        with pytest.raises(LaunchError) as caught:
            only_this_machine(parse_hosts("127.0.0.1,node2"))
        assert caught.value.found == "127.0.0.1 together with other hosts"


def test_a_host_file_that_is_missing_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="can't be read") as caught:
        read_hostfile(tmp_path / "hosts.txt")
    assert caught.value.found == "No such file or directory"
    assert str(caught.value.fix).startswith("Write a line such as node1:2 for each host there, or name them")
