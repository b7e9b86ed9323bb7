"""The rendezvous between real processes on loopback: all arrive, or all say the same and in time."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.clock import stretched, took_at_most
from support.launching import TFMUSTER, environment, wait_until
from support.paths import PROGRAMS
from support.rendezvous_job import VERSIONS, Job, Result, Started, local_cluster
from tfmuster.cluster.spec import Cluster
from tfmuster.cluster.tf_config import tf_config_json
from tfmuster.net.addresses import split_address
from tfmuster.net.ports import port_holder

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def limit() -> int:
    """For how long tasks wait for each other that don't meet."""
    return min(stretched(4), 16)


def all_go(tasks: list[Started]) -> list[Result]:
    results = [task.result() for task in tasks]
    assert [(r.code, r.last["event"]) for r in results] == [(0, "end")] * len(results), results
    return results


def all_say_the_same(tasks: list[Started], within: float = 6) -> str:
    results = [task.result() for task in tasks]
    for result in results:
        assert (result.code, result.last["event"]) == (3, "error"), result
        assert took_at_most(result.last["seconds"], within)
        assert result.last["error"] == results[0].last["error"]
    return results[0].text


def port_of(cluster: Cluster, index: int) -> int:
    return split_address(cluster.worker[index])[1]


# --- everyone comes


SECRET, OTHER_SECRET = "a secret of 24 characters", "another secret of a job"


def at_home(folder: Path) -> dict[str, str]:
    """The variables of a user with this home directory."""
    return {"HOME": str(folder), "XDG_CONFIG_HOME": ""}


def test_tasks_of_one_machine_make_a_secret_by_themselves(tmp_path: Path):
    """So another user of the machine, who has another home directory, takes nobody's place."""
    cluster = local_cluster(2)

    def start(index: int, home: str, seconds: int = 40) -> subprocess.Popen[str]:
        env = {
            **environment(),
            **at_home(tmp_path / home),
            "TF_CONFIG": tf_config_json(cluster.task("worker", index)),
        }
        command = [sys.executable, str(PROGRAMS / "meet.py"), str(seconds), "0"]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    ours = [start(0, "ours")]
    secret = tmp_path / "ours" / ".config" / "tfmuster" / "token"
    wait_until(secret.exists)
    stranger = start(1, "theirs", 2)
    assert "with another TFMUSTER_TOKEN answers there" in stranger.communicate(timeout=60)[1]
    assert stranger.returncode == 3
    ours.append(start(1, "ours"))
    for task in ours:
        out, said = task.communicate(timeout=60)
        assert (task.returncode, out) == (0, "met\n"), said
    assert secret.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in secret.parent.iterdir()] == ["token"]


def test_the_secret_of_the_home_directory_is_used(job: Job, tmp_path: Path, limit: int):
    """Tasks that find it meet. A stranger, who has another home directory, takes nobody's place."""
    ours, theirs = at_home(tmp_path / "ours"), at_home(tmp_path / "theirs")
    made = subprocess.run([*TFMUSTER, "token"], env={**environment(), **ours}, capture_output=True, text=True)
    assert made.returncode == 0 and str(tmp_path / "ours" / ".config" / "tfmuster" / "token") in made.stdout
    cluster = local_cluster(2)
    tasks = [job.start(cluster, "worker", 0, env=ours, timeout=60)]
    stranger = job.start(cluster, "worker", 1, env=theirs, timeout=limit)
    text = stranger.result().text
    assert "a process with a token answers there; this task has none" in text
    tasks.append(job.start(cluster, "worker", 1, env=ours))
    all_go(tasks)


@pytest.mark.parametrize("token", [None, SECRET])
def test_all_arrive(job: Job, token):
    cluster = local_cluster(3, chief=1, ps=1, evaluator=1)
    results = all_go(job.start_all(cluster, token=token))
    said = "".join(result.stderr for result in results)
    if all(result.last["seconds"] < 1 for result in results):
        assert not said
    # On a busy machine one may come so late that the others say whom they wait for.
    waiting = re.compile(r"tfmuster: (\d of 6 tasks are here; )?waiting for .*")
    assert all(waiting.fullmatch(line) for line in said.splitlines())


def test_one_task_alone(job: Job):
    all_go(job.start_all(local_cluster(1)))


def test_forty_tasks(job: Job):
    # More than the number up to which all pairs are checked.
    cluster = local_cluster(40)
    then = "import threading; say(event='threads', n=threading.active_count()); control.done()"
    all_go(job.start_all(cluster, timeout=60, then=then))


def test_the_chief_comes_last(job: Job):
    cluster = local_cluster(3)
    early = [job.start(cluster, "worker", i) for i in (1, 2)]
    time.sleep(2.5)
    late = job.start(cluster, "worker", 0)
    results = all_go([*early, late])
    where = f"tfmuster: waiting for worker 0, the chief, at {cluster.worker[0]}: "
    assert results[0].stderr.startswith(where + "connection refused (nothing listens there)")


def test_a_worker_that_comes_late_is_waited_for_by_name(job: Job):
    cluster = local_cluster(3)
    early = [job.start(cluster, "worker", i) for i in (0, 1)]
    # They must have met, and have waited for a second.
    time.sleep(5)
    results = all_go([*early, job.start(cluster, "worker", 2)])
    for result in results[:2]:
        assert result.stderr.splitlines()[0] == (
            f"tfmuster: 2 of 3 tasks are here; waiting for worker 2 ({cluster.worker[2]})"
        )


def test_every_port_is_free_for_tensorflow_after_go(job: Job):
    cluster = local_cluster(3)
    then = (
        "import socket; s = socket.socket(); s.bind(('', int(task.address.rsplit(':')[1]))); s.listen();"
        "control.done()"
    )
    # Without SO_REUSEADDR even: nothing may linger in TIME_WAIT on a worker's port.
    all_go([job.start(cluster, "worker", i, then=then) for i in (1, 2)] + [job.start(cluster, "worker", 0)])


def test_twice_on_the_same_ports(job: Job):
    cluster = local_cluster(3)
    all_go(job.start_all(cluster))
    all_go(job.start_all(cluster))


def test_ipv6_addresses(job: Job):
    cluster = local_cluster(2)
    all_go(job.start_all(Cluster(worker=[a.replace("127.0.0.1", "[::1]") for a in cluster.worker])))


def test_an_address_that_leads_nowhere_from_inside(job: Job):
    # As behind NAT: the chief can't reach itself under the cluster's name for it, which hinders nobody.
    port = local_cluster(1).worker[0].split(":")[1]
    cluster = Cluster(worker=[f"192.0.2.1:{port}"])
    all_go(job.start_all(cluster))


# --- someone does not come


def test_one_missing(job: Job, limit: int):
    cluster = local_cluster(3)
    text = all_say_the_same([job.start(cluster, "worker", i, timeout=limit) for i in (0, 1)], limit + 2)
    assert text == (
        f"The 3 tasks of the cluster did not come together within {limit} s.\n"
        f"  found: worker 2 ({cluster.worker[2]}) is missing\n"
        "  to do: start worker 2, or see in its own output why it did not arrive: a wrong index, a name that "
        f"does not resolve, a firewall before port {port_of(cluster, 0)} of 127.0.0.1"
    )


def test_a_script_that_does_not_catch_it_ends_with_exit_code_3():
    address = local_cluster(1).worker[0]
    config = {"cluster": {"worker": [address, "127.0.0.1:9"]}, "task": {"type": "worker", "index": 0}}
    done = subprocess.run(
        [sys.executable, PROGRAMS / "meet.py", "1", "0"],
        env={**os.environ, "TF_CONFIG": json.dumps(config)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 3
    assert "RendezvousError: The 2 tasks of the cluster did not come together within 1 s.\n" in done.stderr


def test_the_shortest_time_counts_for_all(job: Job):
    cluster = local_cluster(3)
    patient = job.start(cluster, "worker", 0, timeout=60)
    hasty = job.start(cluster, "worker", 1, timeout=None, env={"TFMUSTER_START_TIMEOUT": "3"})
    assert "within 3 s" in all_say_the_same([patient, hasty])


def test_the_chief_never_comes(job: Job, limit: int):
    cluster = local_cluster(3)
    text = all_say_the_same([job.start(cluster, "worker", i, timeout=limit) for i in (1, 2)], limit + 2)
    assert text == (
        f"The 3 tasks of the cluster did not come together within {limit} s.\n"
        f"  found: worker 0, the chief, can't be reached at {cluster.worker[0]}: connection refused (nothing "
        "listens there)\n"
        f"  to do: start worker 0; if it runs, check that 127.0.0.1 is its machine and that port "
        f"{port_of(cluster, 0)} is open there (firewall)"
    )


def test_one_that_came_and_was_killed(job: Job, limit: int):
    cluster = local_cluster(4)
    rest = [job.start(cluster, "worker", i, timeout=limit) for i in (0, 1)]
    killed = job.start(cluster, "worker", 2)
    # It listens before it reports; a second later it has reported.
    wait_until(lambda: port_holder(port_of(cluster, 2)))
    time.sleep(1)
    killed.process.kill()
    was = f"it was here (host {socket.gethostname()}, pid {killed.pid}) and left"
    assert f"worker 2 ({cluster.worker[2]}) is missing: {was}\n" in all_say_the_same(rest, limit + 2)


def test_the_chief_is_interrupted(job: Job):
    cluster = local_cluster(3)
    chief = job.start(cluster, "worker", 0)
    worker = job.start(cluster, "worker", 1)
    wait_until(lambda: all(port_holder(port_of(cluster, index)) for index in (0, 1)))
    time.sleep(1.5)
    os.kill(chief.pid, signal.SIGINT)
    result = worker.result(5)
    assert result.code == 3
    assert result.text == ("worker 0, the chief, gave up: KeyboardInterrupt.\n  to do: start all tasks again")
    assert chief.result(5).code != 0


# --- everyone comes, but


def test_one_index_twice(job: Job):
    cluster = local_cluster(3)
    chief = job.start(cluster, "worker", 0)
    first = job.start(cluster, "worker", 1)
    wait_until(lambda: port_holder(port_of(cluster, 1)))
    second = job.start(cluster, "worker", 1)
    text = all_say_the_same([chief, first, second])
    host = socket.gethostname()
    assert f"worker 1 is here twice: on {host} (pid {first.pid}) and {host} (pid {second.pid})" in text
    assert "give each process an index of its own" in text
    assert f"worker 2 ({cluster.worker[2]}) is missing" in text


def test_the_chief_twice(job: Job):
    cluster = local_cluster(2)
    first = job.start(cluster, "worker", 0)
    wait_until(lambda: port_holder(port_of(cluster, 0)))
    second = job.start(cluster, "worker", 0)
    text = all_say_the_same([first, second])
    host = socket.gethostname()
    assert f"worker 0 is here twice: on {host} (pid {first.pid}) and {host} (pid {second.pid})" in text


def test_another_cluster(job: Job):
    cluster = local_cluster(3)
    other = Cluster(worker=[*cluster.worker[:2], "127.0.0.1:4"])
    odd = job.start(other, "worker", 1)
    text = all_say_the_same([job.start(cluster, "worker", i) for i in (0, 2)] + [odd])
    assert text == (
        "The 3 tasks of the cluster can't work together.\n"
        f"  found: worker 1 ({socket.gethostname()}, pid {odd.pid}) has another cluster than worker 0: "
        f"worker[2] is 127.0.0.1:4 instead of {cluster.worker[2]}\n"
        "  to do: give every task the same cluster"
    )


def test_a_larger_cluster_than_the_chief_has(job: Job):
    cluster = local_cluster(2)
    larger = Cluster(worker=[*cluster.worker, "127.0.0.1:4"])
    tasks = [job.start(cluster, "worker", 0), job.start(larger, "worker", 1)]
    assert "3 worker addresses instead of 2" in all_say_the_same(tasks)


def test_other_versions(job: Job):
    cluster = local_cluster(3)
    odd = job.start(cluster, "worker", 2, versions={**VERSIONS, "tensorflow": "2.20.0", "keras": "3.14.0"})
    text = all_say_the_same([job.start(cluster, "worker", i) for i in (0, 1)] + [odd])
    who = f"worker 2 ({socket.gethostname()}, pid {odd.pid})"
    assert text == (
        "The 3 tasks of the cluster can't work together.\n"
        f"  found: {who} has TensorFlow 2.20.0; worker 0 has 2.21.0\n"
        f"         {who} has Keras 3.14.0; worker 0 has 3.15.1\n"
        "  to do: install the same versions on every machine"
    )


@pytest.mark.parametrize("index", [0, 1])
def test_a_port_is_taken(job: Job, index: int, limit: int):
    cluster = local_cluster(2)
    port = port_of(cluster, index)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import socket, time; s = socket.create_server(('', {port})); time.sleep(60)"]
    )
    try:
        wait_until(lambda: port_holder(port))
        tasks = job.start_all(cluster, timeout=limit)
        blocked = tasks[index].result()
    finally:
        holder.kill()
        holder.wait()
    assert blocked.code == 3
    assert re.search(
        rf"worker {index} \(\S+, pid {tasks[index].pid}\) can't listen on port {port}: "
        rf"taken by python\S* \(pid {holder.pid}\)",
        blocked.text,
    )
    assert f"end process {holder.pid} on {socket.gethostname()}" in blocked.text
    other = tasks[1 - index].result()
    assert other.code == 3
    if index == 0:
        assert "can't be reached" in other.text
    else:
        assert other.text == blocked.text


@pytest.mark.parametrize(
    ("token", "others", "why"),
    [
        (
            OTHER_SECRET,
            SECRET,
            "a process with another TFMUSTER_TOKEN answers there (a task of an earlier job?)",
        ),
        (None, SECRET, "a process with a token answers there; this task has none (TFMUSTER_TOKEN)"),
        (OTHER_SECRET, None, "a process without a token answers there; this task has one (TFMUSTER_TOKEN)"),
    ],
)
def test_tokens_that_differ(job: Job, token, others, why, limit: int):
    cluster = local_cluster(3)
    odd = job.start(cluster, "worker", 2, token=token, timeout=limit)
    text = all_say_the_same(
        [job.start(cluster, "worker", i, token=others, timeout=limit) for i in (0, 1)], limit + 2
    )
    has = {OTHER_SECRET: "another token" if others else "a token, but this job has none", None: "no token"}[
        token
    ]
    assert f"a process on 127.0.0.1 called worker 0 with {has}" in text
    result = odd.result()
    assert result.code == 3
    assert f"worker 0, the chief, can't be reached at {cluster.worker[0]}: {why}" in result.text


def test_a_chief_whose_name_does_not_resolve(job: Job, limit: int):
    cluster = local_cluster(2, host=socket.gethostname())
    misnamed = Cluster(worker=[f"no-such-host.invalid:{port_of(cluster, 0)}", cluster.worker[1]])
    result = job.start(misnamed, "worker", 1, timeout=limit).result()
    assert result.code == 3 and took_at_most(result.last["seconds"], limit + 2)
    assert (
        f"worker 0, the chief, can't be reached at {misnamed.worker[0]}: "
        f"the name 'no-such-host.invalid' does not resolve on {socket.gethostname()}"
    ) in result.text


def test_a_worker_whose_name_the_others_can_not_resolve(job: Job):
    cluster = local_cluster(3, host=socket.gethostname())
    misnamed = Cluster(worker=[*cluster.worker[:2], f"no-such-host.invalid:{port_of(cluster, 2)}"])
    text = all_say_the_same(job.start_all(misnamed), within=15)
    for name in ("worker 0", "worker 1"):
        assert (
            f"{name} can't reach worker 2 at {misnamed.worker[2]}: the name 'no-such-host.invalid' does not "
            f"resolve on {socket.gethostname()}"
        ) in text


def test_another_process_at_a_workers_address(job: Job):
    # Worker 1 runs, but the cluster's address for it leads elsewhere.
    cluster = local_cluster(2)
    with socket.create_server(("127.0.0.2", port_of(cluster, 1) % 20000 + 20000)) as elsewhere:
        address = f"127.0.0.2:{elsewhere.getsockname()[1]}"
        threading.Thread(target=_hang_up_on_all, args=(elsewhere,), daemon=True).start()
        misled = Cluster(worker=[cluster.worker[0], address])
        tasks = [job.start(misled, "worker", i, timeout=10) for i in (0, 1)]
        text = all_say_the_same(tasks, within=12)
    assert f"can't listen on port {address.split(':')[1]}: taken by" in text


def _hang_up_on_all(server: socket.socket) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return


# --- strangers


def strangers(port: int, stop: threading.Event, seed: int) -> None:
    """Everything a port of this world may meet, again and again."""
    chance = random.Random(seed)
    held: list[socket.socket] = []
    frame = struct.pack(">2sBBI", b"tm", 1, 0, 40) + b'{"type":"hello","nonce":"00"}'.ljust(40)
    deep = struct.pack(">2sBBI", b"tm", 1, 0, 60_000) + b"[" * 60_000
    hello = b'{"type":"hello","task":[],"left":"x","nonce":"%s"}' % (b"00" * 16)
    odd = struct.pack(">2sBBI", b"tm", 1, 0, len(hello)) + hello
    says = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02",
        b"",
        b"tm",
        frame,
        deep,
        odd,
        b"\0" * 100_000,
    ]
    while not stop.is_set():
        try:
            caller = socket.create_connection(("127.0.0.1", port), 1)
            caller.settimeout(1)
            caller.sendall(chance.choice([*says, chance.randbytes(chance.randrange(200))]))
            if chance.random() < 0.3:
                held.append(caller)
            else:
                caller.close()
        except OSError:
            time.sleep(0.01)
        time.sleep(0.001)
        if len(held) > 500:
            held.pop(0).close()
    for caller in held:
        caller.close()


@pytest.mark.parametrize("token", [None, SECRET])
def test_strangers_neither_stop_nor_confuse_it(job: Job, token):
    cluster = local_cluster(3)
    tasks = [job.start(cluster, "worker", i, token=token, timeout=40) for i in (0, 1)]
    wait_until(lambda: port_holder(port_of(cluster, 0)) and port_holder(port_of(cluster, 1)))
    stop = threading.Event()
    crowd = [
        threading.Thread(target=strangers, args=(port_of(cluster, i), stop, seed), daemon=True)
        for seed, i in enumerate((0, 0, 1))
    ]
    for each in crowd:
        each.start()
    time.sleep(2)
    try:
        all_go([*tasks, job.start(cluster, "worker", 2, token=token)])
    finally:
        stop.set()
        for each in crowd:
            each.join(5)


def test_strangers_may_take_all_file_descriptors_but_not_the_place_of_a_task(job: Job):
    cluster = local_cluster(3)
    few = ("sh", "-c", 'ulimit -n 48; exec "$@"', "sh")
    tasks = [job.start(cluster, "worker", 0, prefix=few), job.start(cluster, "worker", 1)]
    wait_until(lambda: port_holder(port_of(cluster, 0)))
    held = [socket.create_connection(("127.0.0.1", port_of(cluster, 0))) for _ in range(300)]
    try:
        all_go([*tasks, job.start(cluster, "worker", 2)])
    finally:
        for caller in held:
            caller.close()


@pytest.mark.parametrize("index", [0, 1])
def test_too_few_file_descriptors_are_named(job: Job, index: int, limit: int):
    """By all whom the chief can tell. Those whom it could not accept are not called missing."""
    cluster = local_cluster(24)
    few = ("sh", "-c", 'ulimit -n 30; exec "$@"', "sh")
    tasks = [
        job.start(cluster, "worker", i, timeout=limit, prefix=few if i == index else ()) for i in range(24)
    ]
    text = all_say_the_same(tasks if index else tasks[:1], within=limit + 4)
    assert re.search(rf"found: worker {index} \(.*, pid {tasks[index].pid}\) may open 30 files; the", text)
    assert "to do: raise the limit of open files on its machine (`ulimit -n`)" in text
    assert "missing" not in text and "reach" not in text


@pytest.mark.slow
def test_ten_thousand_connections(job: Job):
    cluster = local_cluster(3)
    tasks = [job.start(cluster, "worker", i) for i in (0, 1)]
    wait_until(lambda: port_holder(port_of(cluster, 0)))
    held = []
    try:
        for _ in range(10_000):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port_of(cluster, 0)))
            held.append(caller)
        results = all_go([*tasks, job.start(cluster, "worker", 2)])
    finally:
        for caller in held:
            caller.close()
    assert took_at_most(results[-1].events[0]["seconds"], 5)
