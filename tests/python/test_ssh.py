"""Workers on other machines: four real ones, each with an ssh server, and what may go wrong with them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from hosts import NETWORK, Network, built, why_not
from launching import only_run, read_json, wait_until
from tfmuster import __version__

PROGRAMS = Path(__file__).parent / "programs"
ALL = "node1,node2,node3,node4"
REASON = why_not()

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(120),
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]

ECHO = """
import json, os, sys
print(json.dumps([os.uname().nodename, os.getcwd(), sys.argv, json.loads(os.environ["TF_CONFIG"])]))
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with built(tmp_path_factory.mktemp("hosts")) as network:
        yield network


@pytest.fixture
def network(machines: Network) -> Iterator[Network]:
    machines.mend()
    yield machines
    machines.end_launchers()
    machines.nothing_left(seconds=5)


def put(network: Network, name: str, text: str, on: Iterable[str] = ALL.split(",")) -> None:
    """Give machines a script."""
    for machine in on:
        (network.in_work(machine) / name).write_text(text)


def put_meet(network: Network) -> None:
    put(network, "meet.py", (PROGRAMS / "meet.py").read_text())


def lines_of(done: subprocess.CompletedProcess[str], task: str) -> list[str]:
    return [line.partition(" | ")[2] for line in done.stdout.splitlines() if line.startswith(f"{task} ")]


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """What is said last and alone, without the path of the log."""
    return re.sub(r"Its whole output: .*/logs/", "Its whole output: LOGS/", done.stderr.split("\n\n", 1)[1])


class TestFourHosts:
    def test_each_task_has_its_place_and_its_arguments(self, network: Network) -> None:
        name = 'tr $(touch pwned)\'s; touch pwned2 "it".py'
        arguments = [
            "a b",
            "$(touch pwned)",
            "`touch pwned`",
            "x\ny",
            "-n",
            "--",
            "",
            "'",
            '"',
            "größer",
            "*",
            "\\",
        ]
        put(network, name, ECHO)
        done = network.launch("-H", "node1,node2:2,root@node4", "--", name, *arguments)
        assert done.returncode == 0, done.stderr
        seen = [json.loads(lines_of(done, f"worker {index}")[0]) for index in range(4)]
        assert [host for host, *_ in seen] == ["node1", "node2", "node2", "node4"]
        for index, (_, directory, argv, config) in enumerate(seen):
            assert directory == str(network.work)
            assert argv == [name, *arguments]
            assert config["task"] == {"type": "worker", "index": index}
            addresses = config["cluster"]["worker"]
            assert [address.split(":")[0] for address in addresses] == ["node1", "node2", "node2", "node4"]
            assert len(set(addresses)) == 4
        run = only_run(network.work)
        assert read_json(run / "run.json")["cluster"] == seen[0][3]["cluster"]
        assert read_json(run / "status.json")["state"] == "done"
        assert f"tfmuster: 4 tasks on node1, node2, node4; run directory runs/{run.name}\n" in done.stderr

    def test_a_script_is_sent_and_what_it_keeps_comes_back(self, network: Network) -> None:
        script = network.work / "my train.py"
        script.write_text(
            "import os, pathlib, sys, time\n"
            "run = pathlib.Path(os.environ['TFMUSTER_RUN_DIR'])\n"
            "name = os.uname().nodename\n"
            "(run / 'some' / name).mkdir(parents=True)\n"
            "(run / 'some' / name / 'model.keras').write_bytes(bytes(300_000))\n"
            "(run / 'status.json').write_text('not this one')\n"
            "(run / name).write_text('early')\n"
            "time.sleep(2.5)\n"
            "sys.exit(5 if '2' in sys.argv and name == 'node2' else 0)\n"
        )
        process = network.start("-H", "node1,node2", "--copy", "my train.py")
        early = network.work / "runs"
        wait_until(lambda: len([p for p in early.glob("*/node*") if p.read_text() == "early"]) == 2, 15)
        assert process.poll() is None
        assert process.wait(20) == 0
        run = only_run(network.work)
        for name in ("node1", "node2"):
            assert (run / "some" / name / "model.keras").read_bytes() == bytes(300_000)
        assert read_json(run / "status.json")["state"] == "done"
        assert not list(network.in_work("node1").iterdir())

    def test_a_shared_run_directory_is_used_as_it_is(self, network: Network) -> None:
        put(network, "where.py", "import os; print(os.environ['TFMUSTER_RUN_DIR'])")
        shared = network.folder / "shared-run"
        done = network.launch("-H", "node1,node2", "--run-dir", shared, "where.py")
        assert lines_of(done, "worker 1") == [str(shared)]
        shutil.rmtree(shared)

    @pytest.mark.skipif(shutil.which("Rscript") is None, reason="no R")
    def test_an_r_script_runs_with_the_python_of_its_host(self, network: Network) -> None:
        put(
            network,
            "train.R",
            "cat(Sys.getenv('RETICULATE_PYTHON'), commandArgs(TRUE), nchar(Sys.getenv('TF_CONFIG')) > 0)",
        )
        done = network.launch("-H", "node1,node2", "train.R", "$(7)")
        assert done.returncode == 0, done.stderr
        assert lines_of(done, "worker 1") == [f"{sys.executable} $(7) TRUE"]

    def test_from_python_and_in_the_background(self, network: Network) -> None:
        put(network, "t.py", "import sys\nsys.exit(int(sys.argv[1]))\n")
        program = (
            "from tfmuster import launch\n"
            "from tfmuster.errors import WorkerError\n"
            "run = launch('t.py', '0', hosts='node1,node2:2', quiet=True)\n"
            "print(run.status()['state'], len(run.status()['tasks']))\n"
            "run = launch('t.py', '0', hosts='node1,node2:2', wait=False)\n"
            "print(run.wait(20)['state'])\n"
            "try:\n    launch('t.py', '4', hosts='node2', quiet=True)\n"
            "except WorkerError as error:\n    print(error)\n"
        )
        out = network.run_here(sys.executable, "-c", program)
        assert out.splitlines()[:3] == ["done 3", "done", "worker 0 on node2 failed with exit code 4."]

    def test_the_token_is_on_no_command_line(self, network: Network) -> None:
        looks = (
            "import os, pathlib\n"
            "token = os.environ['TFMUSTER_TOKEN']\n"
            "lines = [p.read_bytes() for p in pathlib.Path('/proc').glob('[0-9]*/cmdline')]\n"
            "told = [any(text in line for line in lines) for text in (b'agent', token.encode())]\n"
            "print(len(token), *told)\n"
            "open('token', 'w').write(token)\n"
            "__import__('time').sleep(2)\n"
        )
        put(network, "looks.py", looks)
        process = network.start("-H", "node1,node2", "looks.py")
        wait_until((network.in_work("node1") / "token").exists, 15)
        token = (network.in_work("node1") / "token").read_bytes()
        here = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, check=True).stdout
        assert b"tfmuster.launch.agent" in here and token not in here
        out, err = process.communicate(timeout=20)
        assert out.count("64 True False") == 2, out + err

    @pytest.mark.parametrize(
        ("ending", "how"),
        [
            ("os._exit(7)", "failed with exit code 7."),
            ("os.abort()", "was ended by SIGABRT."),
            ("os.kill(os.getpid(), 9)", "was ended by SIGKILL."),
        ],
    )
    def test_how_a_worker_ended_is_known_here(self, network: Network, ending: str, how: str) -> None:
        text = "import os, time\nprint('last words', flush=True)\n"
        put(network, "t.py", text + f"if os.uname().nodename == 'node2': {ending}\ntime.sleep(60)\n")
        begun = time.monotonic()
        done = network.launch("-H", "node1,node2", "t.py")
        assert time.monotonic() - begun < 10
        network.nothing_left(1)
        assert done.returncode == 1
        assert summary(done).startswith(f"worker 1 on node2 {how}\n\nIts last lines:\n  last words\n")

    @pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 130), ("SIGKILL", -9)])
    def test_nothing_runs_on_after_the_launcher(self, network: Network, name: str, code: int) -> None:
        deaf = (
            "import signal, subprocess, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "subprocess.Popen(['sleep', '98'], start_new_session=True)\n"
            "print('ready', flush=True)\n"
            "time.sleep(99)\n"
        )
        put(network, "deaf.py", deaf)
        process = network.start("-H", "node1,node2:2", "deaf.py")
        logs = network.work / "runs"
        wait_until(lambda: sum("ready" in log.read_text() for log in logs.glob("*/logs/*.log")) == 3)
        begun = time.monotonic()
        process.send_signal(signal.Signals[name])
        process.communicate(timeout=5)
        assert process.returncode == code
        network.nothing_left(5 - (time.monotonic() - begun))

    def test_the_gpus_of_each_host_are_shared_out_among_its_workers(self, network: Network) -> None:
        put(network, "t.py", "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
        network.config.write_text(network.ssh_config(node1="SetEnv CUDA_VISIBLE_DEVICES=3,4,5"))
        done = network.launch("-H", "node1:3,node2", "t.py")
        assert done.returncode == 0, done.stderr
        seen = [lines_of(done, f"worker {index}") for index in range(4)]
        assert seen == [["3"], ["4"], ["5"], ["None"]]
        done = network.launch("-H", "node1:2", "--gpus-per-worker", 2, "t.py")
        assert done.returncode == 2
        assert "node1: 3 GPUs for 2 workers with 2 each\n" in done.stderr

    def test_all_start_again_where_the_run_directory_is_shared(
        self, network: Network, tmp_path: Path
    ) -> None:
        text = (
            "import os, time\n"
            "first = os.environ['TFMUSTER_RESTART'] == '0'\n"
            "print('first' if first else 'second', flush=True)\n"
            "if first and os.uname().nodename == 'node2': os.kill(os.getpid(), 9)\n"
            "time.sleep(60 if first else 0)\n"
        )
        put(network, "t.py", text)
        options = ["-H", "node1,node2", "--max-restarts", 1]
        done = network.launch(*options, "--run-dir", tmp_path / "run", "t.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "tfmuster: worker 1 on node2 was ended by SIGKILL; restart 1 of 1\n" in done.stderr
        assert lines_of(done, "worker 0") == ["first", "second"]
        assert read_json(tmp_path / "run" / "status.json")["restarts"] == 1
        put(network, "t.py", "import time\ntime.sleep(60)\n")
        done = network.launch(*options, "t.py")
        assert done.returncode == 1
        assert summary(done).startswith(
            "worker 0 on node1 failed with exit code 2: A job that may be restarted needs a run directory "
            f"that its chief's host shares.\n  found: no {only_run(network.work)} of this run on node1\n"
        )

    def test_ctrl_c_while_the_hosts_are_asked(self, network: Network) -> None:
        put(network, "t.py", "")
        process = network.start("-H", "node1,node9", "t.py")
        wait_until(lambda: network.machines["node1"].processes())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=3)
        assert (process.returncode, err) == (130, "tfmuster: interrupted; every worker has been ended.\n")
        network.nothing_left(3)

    def test_nothing_runs_on_without_its_agent(self, network: Network) -> None:
        put(network, "t.py", "import time\nprint('ready', flush=True)\ntime.sleep(99)\n")
        process = network.start("-H", "node1,node2", "t.py")
        wait_until(lambda: any("t.py" in line for line in network.machines["node2"].processes()), 15)
        (agent,) = [
            line
            for line in network.machines["node2"].processes()
            if "-c" in line and "import main" in line and "bash" not in line
        ]
        os.kill(int(agent.split(":")[0]), signal.SIGKILL)
        _, err = process.communicate(timeout=10)
        assert process.returncode == 1
        assert "worker 1 on node2 failed with exit code 1: the connection to node2 was lost: " in err
        shutil.rmtree(network.machines["node2"].temporary)
        network.machines["node2"].temporary.mkdir()

    @pytest.mark.slow
    def test_mnist_is_trained(self, network: Network) -> None:
        options = ["--dataset", "synthetic", "--epochs", 2, "--steps-per-epoch", 2]
        done = network.launch("-H", ALL, "--", "tfmuster", "train", "mnist", *options, limit=110)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "64 images per replica x 4 = global batch 256" in done.stdout
        assert [
            line["epoch"] for line in map(json.loads, (only_run(network.work) / "metrics.jsonl").open())
        ] == [1, 2]


class TestFaults:
    """One thing is wrong; the text is compared whole."""

    def refused(self, network: Network, *arguments: object, seconds: float = 15, **env: str) -> str:
        begun = time.monotonic()
        done = network.launch(*arguments, **env)
        assert time.monotonic() - begun < seconds
        network.nothing_left(2)
        assert done.returncode == 2, done.stdout + done.stderr
        assert not (network.work / "runs").exists()
        return done.stderr

    def test_a_host_that_is_not_up(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        assert self.refused(network, "-H", "node1,node9", "t.py") == (
            "Error: 1 of the 2 hosts can't take part.\n"
            "  found: node9: it does not answer "
            f"(ssh: connect to host {NETWORK}.9 port 22: No route to host)\n"
            "  to do: node9: check that it is up, and that the network and its firewall let ssh through\n"
        )

    def test_a_host_whose_firewall_swallows_ssh(self, network: Network) -> None:
        network.cut("node2")
        put(network, "t.py", ECHO)
        error = self.refused(network, "-H", "node1,node2", "t.py", TFMUSTER_START_TIMEOUT="4")
        assert "found: node2: it does not answer (" in error

    def test_a_host_key_that_is_not_known(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        network.config.write_text(network.ssh_config(node3="UserKnownHostsFile /dev/null"))
        assert self.refused(network, "-H", "node1,node3", "t.py") == (
            "Error: 1 of the 2 hosts can't take part.\n"
            "  found: node3: its host key is not known here (Host key verification failed.)\n"
            "  to do: node3: log in once by hand, `ssh node3`, compare the key, and accept it\n"
        )

    def test_a_host_that_does_not_let_us_in(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        network.config.write_text(
            network.ssh_config(node3="IdentityFile /dev/null\n  PreferredAuthentications none")
        )
        assert self.refused(network, "-H", "node1,node3", "t.py") == (
            "Error: 1 of the 2 hosts can't take part.\n"
            "  found: node3: it does not let this user in without a password "
            f"(root@{NETWORK}.3: Permission denied (publickey,keyboard-interactive).)\n"
            "  to do: node3: `ssh-copy-id node3`, or ssh-add the key; "
            "`ssh -o BatchMode=yes node3` must work\n"
        )

    def test_another_tensorflow(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        planted = network.in_work("node2").parent / "site"
        (planted / "tensorflow-2.19.0.dist-info").mkdir(parents=True, exist_ok=True)
        (planted / "tensorflow-2.19.0.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.19.0\n"
        )
        network.config.write_text(network.ssh_config(node2=f"SetEnv PYTHONPATH={planted}"))
        from importlib.metadata import version

        assert self.refused(network, "-H", ALL, "t.py") == (
            "Error: 1 of the 4 hosts can't take part.\n"
            f"  found: node2: TensorFlow 2.19.0, the others TensorFlow {version('tensorflow')}\n"
            "  to do: node2: install the same TensorFlow on every host\n"
        )

    def test_a_script_that_one_host_lacks(self, network: Network) -> None:
        put(network, "t.py", ECHO, on=["node1", "node2", "node4"])
        assert self.refused(network, "-H", ALL, "t.py") == (
            "Error: 1 of the 4 hosts can't take part.\n"
            f"  found: node3: no file t.py in {network.work}\n"
            "  to do: node3: put the script there at the same path, or send it with --copy\n"
        )

    def test_all_that_is_wrong_is_said_at_once(self, network: Network) -> None:
        put(network, "t.py", ECHO, on=["node1"])
        network.config.write_text(network.ssh_config(node2="UserKnownHostsFile /dev/null"))
        assert self.refused(network, "-H", "node1,node2,node3,node4,node9", "t.py") == (
            "Error: 4 of the 5 hosts can't take part.\n"
            "  found: node2: its host key is not known here (Host key verification failed.)\n"
            f"         node3, node4: no file t.py in {network.work}\n"
            "         node9: it does not answer "
            f"(ssh: connect to host {NETWORK}.9 port 22: No route to host)\n"
            "  to do: node2: log in once by hand, `ssh node2`, compare the key, and accept it\n"
            "         node3, node4: put the script there at the same path, or send it with --copy\n"
            "         node9: check that it is up, and that the network and its firewall let ssh through\n"
        )

    def test_no_tfmuster_there(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        python = network.folder / "a python"
        python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'tfmuster'\" >&2; exit 1\n")
        python.chmod(0o755)
        assert self.refused(network, "-H", "node1,node2", "--remote-python", python, "t.py") == (
            "Error: All 2 hosts can't take part.\n"
            "  found: node1, node2: tfmuster is not installed in that Python "
            "(ModuleNotFoundError: No module named 'tfmuster')\n"
            f"  to do: node1, node2: install tfmuster {__version__} there, "
            "or name another Python with --remote-python\n"
        )

    @pytest.mark.parametrize(
        "python", ["/no/py thon", "/no/$(touch pwned)", "no; touch pwned", "`touch pwned`"]
    )
    def test_no_such_python(self, network: Network, python: str) -> None:
        put(network, "t.py", ECHO)
        error = self.refused(network, "-H", "node1", "--remote-python", python, "t.py")
        assert error.startswith("Error: The host can't take part.\n  found: node1: there is no such Python (")
        assert error.endswith(
            "  to do: node1: name the one that tfmuster is installed in with --remote-python\n"
        )

    def test_a_name_that_the_others_do_not_know(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        network.config.write_text(f"Host gpu-a\n  HostName {NETWORK}.3\n{network.ssh_config()}")
        done = network.launch("-H", "node1,gpu-a", "t.py")
        assert done.returncode == 0, done.stderr
        assert json.loads(lines_of(done, "worker 0")[0])[3]["cluster"]["worker"][1].startswith(
            f"{NETWORK}.3:"
        )

    def test_a_clock_that_is_wrong(self, network: Network) -> None:
        planted = network.machines["node2"].folder / "clock"
        planted.mkdir()
        (planted / "sitecustomize.py").write_text(
            "import time\ntrue = time.time\ntime.time = lambda: true() - 5400\n"
        )
        network.config.write_text(network.ssh_config(node2=f"SetEnv PYTHONPATH={planted}"))
        put(
            network,
            "t.py",
            "import os, signal, time\n"
            "from tfmuster.rendezvous import muster\n"
            "from tfmuster.tf_config import current_task\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "muster(current_task())\n"
            "time.sleep(0.8 if os.uname().nodename == 'node2' else 0)\n"
            "raise ValueError('on ' + os.uname().nodename)\n",
        )
        done = network.launch("-H", "node1,node2", "t.py")
        assert done.returncode == 1
        assert (
            "tfmuster: the clock of node2 is 1.5 h behind; the times in its log are by that clock.\n"
            in done.stderr
        )
        assert summary(done).startswith("worker 0 on node1 failed with exit code 1: ValueError: on node1\n")

    def test_a_firewall_that_lets_one_way_through(self, network: Network) -> None:
        put_meet(network)
        network.firewall("node3", against="node2")
        begun = time.monotonic()
        done = network.launch("-H", ALL, "meet.py", 5, 99)
        assert time.monotonic() - begun < 15
        network.nothing_left(2)
        assert done.returncode == 3
        port = read_json(only_run(network.work) / "run.json")["cluster"]["worker"][2].split(":")[1]
        assert re.sub(r"^worker (\d) on node\d", "worker N on nodeN", summary(done)).splitlines()[:3] == [
            "worker N on nodeN failed with exit code 1: The 4 tasks of the cluster can't work together.",
            f"  found: worker 1 can't reach worker 2 at node3:{port}: "
            "no answer (a firewall, or the machine is down)",
            f"  to do: open port {port} of node3 for worker 1 (firewall, security group, route), "
            "and check that the name resolves there",
        ]

    def test_a_host_that_is_cut_off(self, network: Network) -> None:
        put_meet(network)
        process = network.start("-H", ALL, "meet.py", 10, 99)
        logs = network.work / "runs"
        wait_until(lambda: sum("met" in log.read_text() for log in logs.glob("*/logs/*.log")) == 4)
        self.cut_off_is_named(network, process)

    @pytest.mark.slow
    def test_a_host_that_is_cut_off_from_training(self, network: Network) -> None:
        options = ["--dataset", "synthetic", "--epochs", 2000, "--steps-per-epoch", 5]
        process = network.start("-H", ALL, "--", "tfmuster", "train", "mnist", *options)
        logs = network.work / "runs"
        wait_until(
            lambda: any(re.search("epoch +2/", log.read_text()) for log in logs.glob("*/logs/*.log")), 80
        )
        self.cut_off_is_named(network, process)

    def cut_off_is_named(self, network: Network, process: subprocess.Popen[str]) -> None:
        begun = time.monotonic()
        network.cut("node3")
        out, err = process.communicate(timeout=30)
        # 10 s until the cause is named, then the others may be deaf.
        assert time.monotonic() - begun < 14
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        network.nothing_left(10, but_logins_of="node3")
        network.drop_logins("node3")
        assert done.returncode == 1
        assert re.match(
            r"worker 2 on node3 failed with exit code 1: "
            r"the connection to node3 was lost: nothing heard for \d+ s\n",
            summary(done),
        ), err
