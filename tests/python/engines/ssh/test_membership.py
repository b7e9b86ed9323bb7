"""Jobs on hosts that are lost, come back, or are discovered, in network namespaces."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from support.hosts import ALL, Network, put
from support.launching import tfmuster, wait_until
from support.training import PROGRAM, SAME, Training

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights and losses of one worker, to which nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = tfmuster("launch", "-n", 1, *SAME, PROGRAM, ".", "steps", 10**6, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "final-0.npz"


def of_hosts(*options: object, restarts: int = 2, least: int = 2, rejoin: float = 2) -> tuple[object, ...]:
    return (*options, "--max-restarts", restarts, "--min-workers", least, "--rejoin-timeout", rejoin)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("shared", [True, False])
def test_a_job_goes_on_without_the_host_of_the_chief(
    network: Network, tmp_path: Path, undisturbed: Path, shared: bool
) -> None:
    """Three workers begin, and the first host is lost. Two continue from its newest checkpoint.

    Without a shared run directory, it was copied to the launcher as it was written, and is brought to the
    host of the new chief.
    """
    hosts = of_hosts("-H", "node1,node2,node3")
    training = Training(network, tmp_path, 3, *hosts, shared=shared)
    try:
        training.wait_for("node1", "node2", "node3")
        # The last one may be on its way.
        time.sleep(2)
        network.cut("node1")
        said, errors = training.finish(undisturbed)
        assert "tfmuster: node1 lost; the job continues with 2 of 3 workers\n" in errors
        (step,) = re.findall(r"resumes after step (\d+)", said)
        assert int(step) >= 8
        assert training.clusters == [["node1", "node2", "node3"], ["node2", "node3"]]
        assert set(training.run.status()["tasks"]) == {"worker 0", "worker 1"}
        # Each step has a checkpoint, of which the two newest are kept, on both ends.
        assert len(list((training.run.path / "checkpoints").glob("*.checkpoint"))) == 2
        assert len(training.run.history()["loss"]) == 4
    finally:
        training.clear("node1")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_of_four_hosts_is_lost_and_comes_back(
    network: Network, tmp_path: Path, undisturbed: Path
) -> None:
    """No host shares the run directory. Only the chief's has the checkpoints, and stays."""
    training = Training(network, tmp_path, 4, *of_hosts("-H", ALL, "--grow", 1, least=3), shared=False)
    try:
        training.wait_for("node1", "node2", "node3", "node4")
        network.cut("node3")
        training.wait_for("node1", "node2", "node4")
        network.connect("node3")
        network.drop_logins("node3")
        training.wait_for("node1", "node2", "node3", "node4")
        said, errors = training.finish(undisturbed)
        assert "tfmuster: node3 lost; the job continues with 3 of 4 workers\n" in errors
        assert "tfmuster: node3 can take part; the workers write a checkpoint and start again\n" in errors
        assert said.count("resumes after step") == 2
    finally:
        training.clear("node3")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_host_that_is_discovered_joins_a_job_that_runs(
    network: Network, tmp_path: Path, undisturbed: Path
) -> None:
    """A third host comes, and the first is lost later. The weights are those of one worker."""
    listed = tmp_path / "hosts.txt"
    listed.write_text("node1:1\nnode2:1\n")
    hosts = of_hosts("--hosts-from", f"cat {listed}", "-n", 3, "--grow", 1, restarts=1)
    training = Training(network, tmp_path, 3, *hosts)
    try:
        training.wait_for("node1", "node2")
        # There is no such machine, so nothing happens.
        listed.write_text("node1:1\nnode2:1\nnode9:1\n")
        time.sleep(3)
        assert "clusters" not in training.run.info() and training.run.status()["state"] == "running"
        listed.write_text("node1:1\nnode2:1\nnode3:1\n")
        training.wait_for("node1", "node2", "node3")
        listed.write_text("node3:1\nnode2:1\n")
        network.cut("node1")
        said, errors = training.finish(undisturbed)
        assert "tfmuster: node3 can take part; the workers write a checkpoint and start again\n" in errors
        assert "the job continues with 3 of 3 workers, on node1, node2, node3\n" in errors
        assert "the job continues with 2 of 3 workers, on node3, node2\n" in errors
        assert said.count("resumes after step") >= 2
        assert training.clusters == [["node1", "node2"], ["node1", "node2", "node3"], ["node3", "node2"]]
    finally:
        training.clear("node1")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_host_that_flaps_joins_whenever_it_is_back(
    network: Network, tmp_path: Path, undisturbed: Path
) -> None:
    """It is left out at a restart, and the job need not fail again to have it back."""
    hosts = of_hosts("-H", "node1,node2", "--grow", 1, least=1, rejoin=0)
    training = Training(network, tmp_path, 2, *hosts)
    try:
        training.wait_for("node1", "node2")
        for _ in range(2):
            network.cut("node2")
            training.wait_for("node1")
            network.connect("node2")
            network.drop_logins("node2")
            training.wait_for("node1", "node2")
        _, errors = training.finish(undisturbed)
        assert [len(each) for each in training.clusters] == [2, 1, 2, 1, 2]
        assert errors.count("node2 lost; the job continues with 1 of 2 workers") == 2
        assert errors.count("node2 can take part") == 2
    finally:
        training.clear("node2")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("shared", [True, False])
def test_two_of_four_hosts_are_lost_at_once(
    network: Network, tmp_path: Path, undisturbed: Path, shared: bool
) -> None:
    """One of them is the chief's."""
    hosts = of_hosts("-H", ALL, restarts=1, rejoin=1)
    training = Training(network, tmp_path, 4, *hosts, step=4, shared=shared)
    try:
        training.wait_for("node1", "node2", "node3", "node4")
        time.sleep(2)
        network.cut("node1")
        network.cut("node3")
        said, errors = training.finish(undisturbed)
        assert "tfmuster: node1, node3 lost; the job continues with 2 of 4 workers\n" in errors
        assert "resumes after step" in said
        assert training.clusters[1:] == [["node2", "node4"]]
    finally:
        training.clear("node1", "node3")


SLOW = """
import os, pathlib, time
import keras, numpy as np
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pathlib.Path("trains").touch()
        if not pathlib.Path("fast").exists():
            time.sleep(0.2)
    def on_train_end(self, logs=None):
        updates = int(self.model.optimizer.iterations.numpy())
        print("updates", updates, "in epochs of", self.params["steps"], flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("program", "options", "hosts"),
    [
        (
            # Two workers can't have equal parts of a batch of three.
            "import tfmuster\n"
            f"strategy = tfmuster.strategy('multi_worker_mirrored')\n{SLOW}"
            "tfmuster.train_mnist('softmax', strategy=strategy, dataset='synthetic', batch_size=333, "
            "epochs=2, steps_per_epoch=10, callbacks=[Slow()])\n",
            (),
            3,
        ),
        (
            f"{SLOW}model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])\n"
            "model.compile('sgd', 'mse', steps_per_execution=1)\n"
            "model.fit(np.ones((10_000, 1)), np.ones(10_000), batch_size=500, epochs=2, verbose=0, "
            "callbacks=[Slow()])\n",
            ("--distribute", "--scale-batch"),
            2,
        ),
    ],
    ids=["train_mnist", "scale-batch"],
)
def test_a_batch_of_each_worker_is_still_that_of_as_many(
    network: Network, tmp_path: Path, program: str, options: tuple[str, ...], hosts: int
) -> None:
    """Where a step has a batch of each worker, those that are left compute those of the lost ones, too."""
    put(network, "t.py", program)
    names = [f"node{i + 1}" for i in range(hosts)]
    process = network.start(
        *of_hosts("-H", ",".join(names), "--run-dir", tmp_path / "run", least=1, rejoin=0),
        *("--start-timeout", 20, "--all-output", *options, "t.py"),
    )
    try:
        wait_until(lambda: (network.in_work("node2") / "trains").exists() or process.poll() is not None, 60)
        assert process.poll() is None, process.communicate()
        time.sleep(1)
        network.cut("node1")
        for machine in names:
            (network.in_work(machine) / "fast").touch()
        said, errors = process.communicate(timeout=150)
        assert process.returncode == 0, said + errors
        assert f"tfmuster: node1 lost; the job continues with {hosts - 1} of {hosts} workers\n" in errors
        assert re.findall("updates .*", said) == ["updates 20 in epochs of 10"] * (hosts - 1), said
    finally:
        network.repair()
        network.drop_logins("node1")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("echo no permission >&2; exit 3", "exit code 3: no permission"),
        ("echo '<html>'", "line 1: '<html>' is not a host name"),
        ("echo node1:1; echo node1:2", "line 2: 'node1' is named twice"),
        ("echo node1:many", "line 1: 'many' is not a number of slots"),
        ("true", "2 tasks, 0 slots"),
    ],
)
def test_what_a_discovery_command_may_not_print(network: Network, command: str, found: str) -> None:
    put(network, "t.py", "")
    done = network.launch("--hosts-from", command, "-n", 2, "t.py")
    assert (done.returncode, found in done.stderr) == (2, True), done.stderr


def test_hosts_and_a_command_for_them_are_refused(network: Network) -> None:
    put(network, "t.py", "")
    done = network.launch("-H", "node1", "--hosts-from", "echo node2", "t.py")
    assert (done.returncode, "found: both" in done.stderr) == (2, True), done.stderr


def test_too_few_hosts_are_named(network: Network, tmp_path: Path) -> None:
    put(network, "t.py", "import os, time\nprint('here', flush=True)\ntime.sleep(60)\n")
    options = ["--max-restarts", 2, "--min-workers", 2, "--rejoin-timeout", 0, "--start-timeout", 12]
    process = network.start("-H", "node1,node2", "--run-dir", tmp_path / "run", *options, "t.py")
    logs = tmp_path / "run" / "logs"
    wait_until(lambda: sum("here" in log.read_text() for log in logs.glob("*.log")) == 2)
    try:
        network.cut("node2")
        _, errors = process.communicate(timeout=90)
    finally:
        network.repair()
        network.drop_logins("node2")
    assert process.returncode == 1, errors
    assert "tfmuster: no restart: Too few workers are left.\n  found: 1 of 2; 2 are needed" in errors
    assert "(min_workers); lost: node2" in errors
    assert re.search(r"\n\nworker 1 on node2 was lost: nothing heard for", errors)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_host_that_is_away_for_a_while_is_waited_for(
    network: Network, tmp_path: Path, undisturbed: Path
) -> None:
    training = Training(network, tmp_path, 2, "-H", "node1,node2", "--max-restarts", 2, shared=False)
    try:
        training.wait_for("node1", "node2")
        network.cut("node2")
        time.sleep(25)
        network.connect("node2")
        network.drop_logins("node2")
        said, errors = training.finish(undisturbed)
        assert re.search(r"tfmuster: waiting for node2 to come back, at most \d+ s more\n", errors)
        assert said.count("resumes after step") == 1
    finally:
        training.clear("node2")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--min-workers", 3, "--max-restarts", 1), "--min-workers 3 and 2 workers"),
        (("--min-workers", 0, "--max-restarts", 1), "--min-workers takes a whole number of at least 1"),
        (("--min-workers", 1), "--min-workers 1 without --max-restarts"),
        (("--grow", 5, "--max-restarts", 1), "--grow without --min-workers"),
        (("--min-workers", 1, "--max-restarts", 1, "--evaluator", "-n", 1), "--min-workers with a chief"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    network: Network, options: tuple[object, ...], found: str
) -> None:
    put(network, "t.py", "")
    done = network.launch("-H", "node1,node2", *options, "t.py")
    assert (done.returncode, found in done.stderr) == (2, True), done.stderr
