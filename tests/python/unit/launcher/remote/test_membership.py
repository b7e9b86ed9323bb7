"""Which hosts take part in an attempt, without any host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.hosts import Host, parse_discovered
from tfmuster.launcher.job import Job
from tfmuster.launcher.remote.host_checks import refusal
from tfmuster.launcher.remote.membership import Growth, Membership, Task
from tfmuster.launcher.supervise.restarts import Attempt
from tfmuster.options.places import Ssh

NODES = [Host(f"node{number}") for number in range(1, 5)]
JOB = Job(command=["train.py"], workers=4, max_restarts=3)


def names(tasks: Sequence[Task]) -> list[str]:
    return [host.name for *_, host in tasks]


def finding(host: str, code: str) -> dict[str, str]:
    return {"host": host, "code": code, "message": f"{code} on {host}", "fix": ""}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[Host | LaunchError]:
    """What the discovery command prints; an error instead of a host is raised, once."""
    now: list[Host | LaunchError] = list(NODES[:2])

    def hosts(command: str) -> tuple[Host, ...]:
        for each in now:
            if isinstance(each, LaunchError):
                now.remove(each)
                raise each
        return tuple(each for each in now if isinstance(each, Host))

    monkeypatch.setattr("tfmuster.launcher.remote.membership.discovered_hosts", hosts)
    return now


def membership(seconds: float = 5.0, least: int | None = 1, job: Job = JOB) -> Membership:
    return Membership(Ssh(hosts_from="./hosts.sh", min_workers=least, rejoin_timeout=seconds), NODES[:2], job)


def test_a_job_begins_and_continues_with_the_hosts_that_there_are(
    listed: list[Host | LaunchError], capsys: pytest.CaptureFixture[str]
) -> None:
    member = membership()
    assert member.start(Attempt(0, 3), names) == ["node1", "node2"]
    listed[:] = [NODES[3], Host("node2", 9)]
    assert member.start(Attempt(1, 3), names) == ["node4", "node2", "node2", "node2"]
    assert "the job continues with 4 of 4 workers, on node4, node2\n" in capsys.readouterr().err


def test_a_command_that_fails_at_a_restart_is_asked_again(
    listed: list[Host | LaunchError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfmuster.launcher.remote.membership._PAUSE_SECONDS", 0.01)
    listed.append(LaunchError("fails", reason="hosts-from"))
    assert membership().start(Attempt(1, 3), names) == ["node1", "node2"]
    listed.append(LaunchError("fails", reason="hosts-from"))
    with pytest.raises(LaunchError, match="fails"):
        membership(seconds=0).start(Attempt(1, 3), names)


def test_too_few_hosts_are_named(listed: list[Host | LaunchError]) -> None:
    with pytest.raises(LaunchError, match=r"1 of 4; 2 are needed \(min_workers\); on node1"):
        listed[:] = NODES[:1]
        membership(seconds=0, least=2).start(Attempt(1, 3), names)
    with pytest.raises(LaunchError, match="slot for every task"):
        membership(seconds=0, least=None).start(Attempt(1, 3), names)


def test_a_new_host_that_can_not_take_part_is_left_out_for_good(
    listed: list[Host | LaunchError], capsys: pytest.CaptureFixture[str]
) -> None:
    member = membership()

    def run(tasks: Sequence[Task]) -> list[str]:
        unfit = [finding(name, "no-tensorflow") for name in names(tasks) if name == "node3"]
        if unfit:
            raise refusal(unfit, len(tasks))
        return names(tasks)

    assert member.start(Attempt(0, 3), run) == ["node1", "node2"]
    listed.append(NODES[2])
    assert member.start(Attempt(1, 3), run) == ["node1", "node2"]
    assert "left out: node3: no-tensorflow on node3\n" in capsys.readouterr().err

    def unfit_later(tasks: Sequence[Task]) -> list[str]:
        raise refusal([finding("node2", "no-tensorflow")], len(tasks))

    with pytest.raises(LaunchError, match="no-tensorflow on node2"):
        member.start(Attempt(2, 3), unfit_later)


def test_a_restart_waits_for_a_lost_host_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tfmuster.launcher.remote.membership._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("tfmuster.launcher.remote.membership._SAY_SECONDS", 0.02)
    tries = []

    def run(tasks: Sequence[Task]) -> list[str]:
        tries.append(names(tasks))
        if len(tries) < 6:
            raise refusal([finding("node2", "unreachable")], len(tasks))
        return names(tasks)

    member = Membership(Ssh(hosts="node1,node2"), NODES[:2], Job(command=["x.py"], workers=2, max_restarts=3))
    assert member.start(Attempt(1, 3), run) == ["node1", "node2"]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "tfmuster: waiting for node2 to come back, at most 120 s more"
    assert 1 < len(said) < 5
    # At the start nobody is waited for.
    tries.clear()
    with pytest.raises(LaunchError, match="unreachable on node2"):
        member.start(Attempt(0, 3), run)
    assert len(tries) == 1


def test_nobody_is_waited_for_who_is_up_and_wrongly_set_up() -> None:
    def run(tasks: Sequence[Task]) -> list[str]:
        raise refusal([finding("node2", "no-tensorflow"), finding("node1", "unreachable")], len(tasks))

    member = Membership(Ssh(hosts="node1,node2"), NODES[:2], Job(command=["x.py"], workers=2, max_restarts=3))
    member.start(Attempt(0, 3), names)
    with pytest.raises(LaunchError, match="no-tensorflow on node2"):
        member.start(Attempt(1, 3), run)


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("node1:1 node2:1 node3:1", "node3"),
        ("node1:3 node2:1", "node1"),
        ("node1:1 node2:1", ""),
        ("node1:1 node3:1", ""),
        ("node1:1 node2:1 node4:1", ""),
    ],
)
def test_hosts_with_new_slots_are_found(hosts: str, found: str) -> None:
    """A host that is not listed any more still works, and node4 can't be reached."""
    growth = Growth(
        lambda: parse_discovered(hosts.split()),
        0.01,
        {"node1": 1, "node2": 1},
        4,
        lambda host: host.name != "node4",
    )
    growth.start()
    growth.join(0.3)
    growth.end()
    growth.join(5)
    assert growth.new_hosts() == found


def test_a_job_with_all_its_workers_does_not_grow() -> None:
    growth = Growth(lambda: NODES, 0.01, {"node1": 2, "node2": 2}, 4, lambda host: True)
    growth.start()
    growth.join(0.1)
    growth.end()
    assert growth.new_hosts() == ""


def test_a_command_that_fails_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [LaunchError("fails.", found="exit code 1")] * 3

    def hosts() -> Sequence[Host]:
        if answers:
            raise answers.pop()
        return NODES

    growth = Growth(hosts, 0.01, {"node1": 1}, 4, lambda host: True)
    growth.start()
    growth.join(5)
    assert growth.new_hosts() == "node2, node3, node4"
    assert capsys.readouterr().err == "tfmuster: fails: exit code 1\n"


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"min_workers": 5, "rejoin_timeout": 30.0}, "min_workers=5 and 4 workers"),
        ({"grow": 5.0}, "grow without min_workers"),
    ],
)
def test_settings_of_a_program_that_do_not_fit(settings: dict[str, Any], found: str) -> None:
    with pytest.raises(LaunchError) as caught:
        Membership(Ssh(**settings), NODES, JOB)
    assert (caught.value.found, caught.value.fields["reason"]) == (found, "min-workers")
