"""Every text that a failed rendezvous shows, as the user reads it."""

from __future__ import annotations

import threading
from textwrap import dedent

import orjson
import pytest

from tfmuster.cluster.spec import Cluster
from tfmuster.net.channel import MAX_PAYLOAD
from tfmuster.rendezvous.chief.roster import Participant, Roster, cluster_differences
from tfmuster.rendezvous.chief.server import RendezvousServer
from tfmuster.rendezvous.error import MAX_LISTED, too_late
from tfmuster.rendezvous.links import check_targets, number_of_targets
from tfmuster.system.terminal_text import bounded_text

CLUSTER = Cluster(worker=["10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"])
VERSIONS = {"tfmuster": "0.1.0", "tensorflow": "2.21.0"}


def hello(index: int, **changes: object) -> dict[str, object]:
    return {
        "task": f"worker {index}",
        "id": f"id-{index}",
        "host": f"node{index}",
        "pid": 100 + index,
        "digest": CLUSTER.digest,
        "versions": VERSIONS,
        "port": None,
    } | changes


def roll_of(*hellos: dict[str, object]) -> Roster:
    roster = Roster(CLUSTER.task("worker", 0), VERSIONS)
    for each in hellos:
        roster.arrive(Participant.from_hello(each))
    return roster


def assert_text(error: Exception, expected: str) -> None:
    assert str(error) == dedent(expected).strip("\n")


def test_all_here_and_alike_is_no_fault():
    roster = roll_of(hello(0), hello(1), hello(2))
    assert roster.complete() and not roster.fault() and roster.missing() == []
    assert roster.waiting_text() == "all 3 tasks are here"


def test_one_missing():
    roster = roll_of(hello(0), hello(1))
    assert not roster.complete() and not roster.fault()
    assert roster.waiting_text() == "2 of 3 tasks are here; waiting for worker 2 (10.0.0.3:2222)"
    assert_text(
        roster.error(60.0),
        """
        The 3 tasks of the cluster did not come together within 60 s.
          found: worker 2 (10.0.0.3:2222) is missing
          to do: start worker 2, or see in its own output why it did not arrive: a wrong index, a name that does not resolve, a firewall before port 2222 of 10.0.0.1
        """,  # noqa: E501
    )
    assert roster.error(60.0).fields["missing"] == [{"task": "worker 2", "address": "10.0.0.3:2222"}]


def test_one_that_left():
    roster = roll_of(hello(0), hello(1), hello(2))
    roster.remove("id-1")
    assert_text(
        roster.error(60.0),
        """
        The 3 tasks of the cluster did not come together within 60 s.
          found: worker 1 (10.0.0.2:2222) is missing: it was here (host node1, pid 101) and left
          to do: start worker 1, or see in its own output why it did not arrive: a wrong index, a name that does not resolve, a firewall before port 2222 of 10.0.0.1
        """,  # noqa: E501
    )


def test_wrong_index_shows_as_a_double_and_a_gap():
    roster = roll_of(hello(0), hello(1), hello(1, id="other", host="node2", pid=7))
    roster.answered_by["worker 2"] = "worker 1"
    assert roster.fault() and roster.complete()
    assert_text(
        roster.error(None),
        """
        The 3 tasks of the cluster can't work together.
          found: worker 2 (10.0.0.3:2222) is missing: worker 1 answers at its address
                 worker 1 is here twice: on node1 (pid 101) and node2 (pid 7)
          to do: start worker 2, or see in its own output why it did not arrive: a wrong index, a name that does not resolve, a firewall before port 2222 of 10.0.0.1
                 give each process an index of its own: all but one of them have a wrong one
        """,  # noqa: E501
    )


def test_the_same_process_that_calls_again_is_no_double():
    roster = roll_of(hello(0), hello(1), hello(1))
    assert not roster.fault() and roster.missing() == ["worker 2"]


def test_a_double_that_left_is_no_double():
    roster = roll_of(hello(0), hello(1), hello(1, id="other"), hello(2))
    roster.remove("other")
    assert not roster.fault() and roster.missing() == []


def test_another_cluster():
    other = Cluster(worker=["10.0.0.1:2222", "10.0.0.9:2222"])
    roster = roll_of(hello(0), hello(1, digest=other.digest), hello(2))
    assert roster.fault() and not roster.described()
    roster.differences["id-1"] = cluster_differences(CLUSTER, other.to_dict())
    assert roster.described()
    assert_text(
        roster.error(None),
        """
        The 3 tasks of the cluster can't work together.
          found: worker 1 (node1, pid 101) has another cluster than worker 0: 2 worker addresses instead of 3; worker[1] is 10.0.0.9:2222 instead of 10.0.0.2:2222
          to do: give every task the same cluster
        """,  # noqa: E501
    )


def test_other_versions():
    roster = roll_of(hello(0), hello(1, versions={"tfmuster": "0.1.0", "tensorflow": "2.20.0"}), hello(2))
    assert roster.fault()
    assert_text(
        roster.error(None),
        """
        The 3 tasks of the cluster can't work together.
          found: worker 1 (node1, pid 101) has TensorFlow 2.20.0; worker 0 has 2.21.0
          to do: install the same versions on every machine
        """,
    )


@pytest.mark.parametrize(
    ("port", "found", "fix"),
    [
        (
            {"port": 2222, "reason": "taken", "holder": "nginx", "holder_pid": 9},
            "taken by nginx (pid 9)",
            "end process 9 on node1, or give the task another port",
        ),
        (
            {"port": 2222, "reason": "taken"},
            "taken by a process that can't be seen from here (another user's, or another container's)",
            "give the task another port",
        ),
        ({"port": 22, "reason": "permission denied"}, "permission denied", "give the task another port"),
    ],
)
def test_port_that_can_not_be_had(port, found, fix):
    assert_text(
        roll_of(hello(0), hello(1, port=port), hello(2)).error(None),
        f"""
        The 3 tasks of the cluster can't work together.
          found: worker 1 (node1, pid 101) can't listen on port {port["port"]}: {found}
          to do: {fix}
        """,
    )


def test_port_held_by_the_tasks_own_double_is_told_once():
    port = {"port": 2222, "reason": "taken", "holder": "python", "holder_pid": 101}
    roster = roll_of(hello(0), hello(1), hello(1, id="other", host="node1", pid=7, port=port), hello(2))
    assert roster.error(None).fields["ports"] == []


def test_cut_off():
    roster = roll_of(hello(0), hello(1))
    roster.cut_off["worker 2"] = "no answer (a firewall, or the machine is down)"
    assert roster.waiting_text() == (
        "2 of 3 tasks are here; waiting for worker 2 (10.0.0.3:2222), which runs but can't reach worker 0: "
        "no answer (a firewall, or the machine is down)"
    )
    assert_text(
        roster.error(60.0),
        """
        The 3 tasks of the cluster did not come together within 60 s.
          found: worker 2 can't reach worker 0 at 10.0.0.1:2222: no answer (a firewall, or the machine is down)
          to do: open port 2222 of 10.0.0.1 for worker 2 (firewall, security group, route), and check that the name resolves there
        """,  # noqa: E501
    )


def test_strangers_are_told_only_when_someone_is_missing():
    roster = roll_of(hello(0), hello(1))
    roster.strangers["10.0.0.3"] = "another token"
    assert_text(
        roster.error(60.0),
        """
        The 3 tasks of the cluster did not come together within 60 s.
          found: worker 2 (10.0.0.3:2222) is missing
                 a process on 10.0.0.3 called worker 0 with another token
          to do: start worker 2, or see in its own output why it did not arrive: a wrong index, a name that does not resolve, a firewall before port 2222 of 10.0.0.1
                 start every task with the same TFMUSTER_TOKEN; a task of an earlier job may still run
        """,  # noqa: E501
    )
    roster.arrive(Participant.from_hello(hello(2)))
    assert "called" not in str(roster.error(None))


def test_chief_out_of_reach():
    error = too_late(CLUSTER.task("worker", 2), 60.0, "connection refused (nothing listens there)")
    assert_text(
        error,
        """
        The 3 tasks of the cluster did not come together within 60 s.
          found: worker 0, the chief, can't be reached at 10.0.0.1:2222: connection refused (nothing listens there)
          to do: start worker 0; if it runs, check that 10.0.0.1 is its machine and that port 2222 is open there (firewall)
        """,  # noqa: E501
    )
    assert error.exit_code == 3


def test_an_error_about_a_thousand_tasks_fits_into_a_message_and_on_a_screen():
    cluster = Cluster(worker=[f"worker-{i}.training.example.org:2222" for i in range(1000)])
    roster = Roster(cluster.task("worker", 0), VERSIONS)
    for i in range(500):
        versions = {"tfmuster": "9", "tensorflow": "1" * 100}
        roster.arrive(Participant.from_hello(hello(i, host="h" * 300, versions=versions, digest="d" * 999)))
    error = roster.error(60.0)
    assert len(orjson.dumps(error.to_dict())) < MAX_PAYLOAD
    assert len(str(error).splitlines()) < 40
    assert error.fields["counts"]["missing"] == 500 and len(error.fields["missing"]) == MAX_LISTED
    assert "and 492 more like this" in str(error)


@pytest.mark.parametrize("broken", [{}, {"versions": 1}, {"versions": {}, "pid": "1"}])
def test_what_is_no_hello_is_refused(broken):
    with pytest.raises(ValueError, match="not a hello"):
        Participant.from_hello(broken)


def test_text_from_elsewhere_is_cut_and_printable():
    assert bounded_text("a\x1b[31m\nb") == "a?[31m?b"
    assert bounded_text("x" * 500, 10) == "x" * 9 + "…"


def test_who_tries_to_reach_whom():
    small = Cluster(chief=["c:1"], worker=["a:1", "b:1"], evaluator=["e:1"])
    assert check_targets(small.chief_task()) == {
        "chief 0": ["worker 0", "worker 1"],
        "worker 0": ["worker 1"],
        "worker 1": ["worker 0"],
        "evaluator 0": [],
    }
    large = Cluster(worker=[f"h{i}:1" for i in range(100)])
    targets = check_targets(large.chief_task())
    assert len(targets["worker 0"]) == 99
    assert targets["worker 1"] == ["worker 2"] and targets["worker 99"] == ["worker 1"]
    assert sum(map(len, targets.values())) == 198
    for cluster in (small, large, Cluster(worker=["a:1"]), Cluster(worker=["a:1"], ps=["p:1"])):
        expected = {name: len(names) for name, names in check_targets(cluster.chief_task()).items()}
        assert {task.name: number_of_targets(task) for task in cluster.tasks()} == expected


def test_the_servers_thread_and_threads_of_python_share_no_name() -> None:
    # Threads have an attribute _handle from Python 3.13 on: a method of that name was never called there.
    of_threads = {"_handle", *vars(threading.Thread()), *vars(threading.Thread)}
    assert {name for name in vars(RendezvousServer) if not name.startswith("__")} & of_threads == {"run"}
