"""What may go wrong with workers on other machines, one thing at a time; the text is compared whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfmuster
from support.clock import in_time
from support.hosts import ALL, ECHO, NETWORK, Network, lines_of, put, put_meet, summary
from support.launching import only_run, read_json, wait_until
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.timeout(120)


class TestFaults:
    """One thing is wrong; the text is compared whole."""

    def refused(self, network: Network, *arguments: object, seconds: float = 15, **env: str) -> str:
        begun = time.monotonic()
        done = network.launch(*arguments, **env)
        assert in_time(begun, seconds)
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
        said = self.refused(network, "-H", "node1,node2", "t.py", TFMUSTER_START_TIMEOUT="12")
        # The kernel says so at once if it has not seen the host for long.
        assert said.replace("No route to host", "Connection timed out") == (
            "Error: 1 of the 2 hosts can't take part.\n"
            "  found: node2: it does not answer "
            f"(ssh: connect to host {NETWORK}.2 port 22: Connection timed out)\n"
            "  to do: node2: check that it is up, and that the network and its firewall let ssh through\n"
        )

    def test_a_host_key_that_is_not_known(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        network.config.write_text(network.ssh_config(node3="UserKnownHostsFile /dev/null"))
        assert self.refused(network, "-H", "node1,node3", "t.py") == (
            "Error: 1 of the 2 hosts can't take part.\n"
            "  found: node3: its host key is not known here (Host key verification failed.)\n"
            "  to do: node3: log in once with `ssh node3`, compare the key, and accept it\n"
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

    def test_a_login_without_a_shell(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        with network.account("node3", shell="nologin"):
            assert self.refused(network, "-H", "node1,node3", "t.py") == (
                "Error: 1 of the 2 hosts can't take part.\n"
                "  found: node3: no agent could be started there (exit code 1) "
                "(This account is currently not available.)\n"
                "  to do: node3: see what `ssh node3 true` says\n"
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

    def test_another_tfmuster(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        planted = network.in_work("node2").parent / "other"
        shutil.copytree(Path(tfmuster.__file__).parent, planted / "tfmuster", dirs_exist_ok=True)
        init = planted / "tfmuster/__init__.py"
        init.write_text(init.read_text().replace(f'"{tfmuster.__version__}"', '"0.0.9"'))
        network.config.write_text(network.ssh_config(node2=f"SetEnv PYTHONPATH={planted}"))
        assert self.refused(network, "-H", "node1,node2", "t.py") == (
            "Error: 1 of the 2 hosts can't take part.\n"
            f"  found: node2: tfmuster 0.0.9, here {tfmuster.__version__}\n"
            f"  to do: node2: install tfmuster {tfmuster.__version__} there\n"
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
            "  to do: node2: log in once with `ssh node2`, compare the key, and accept it\n"
            "         node3, node4: put the script there at the same path, or send it with --copy\n"
            "         node9: check that it is up, and that the network and its firewall let ssh through\n"
        )

    def test_no_tfmuster_there(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        python = network.folder / "a python"
        python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'tfmuster'\" >&2; exit 1\n")
        python.chmod(0o755)
        assert self.refused(network, "-H", "node1,node2", "--remote-python", python, "t.py") == (
            "Error: None of the 2 hosts can take part.\n"
            "  found: node1, node2: tfmuster is not installed in that Python "
            "(ModuleNotFoundError: No module named 'tfmuster')\n"
            f"  to do: node1, node2: install tfmuster {tfmuster.__version__} there, "
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

    @pytest.mark.timeout(240)
    @pytest.mark.parametrize(
        ("node", "seconds", "about"), [("node1", 3600, "ahead"), ("node2", -3600, "behind")]
    )
    def test_a_clock_that_is_wrong_ends_no_training(
        self, network: Network, node: str, seconds: int, about: str
    ) -> None:
        planted = network.machines[node].folder / "training clock"
        planted.mkdir()
        (planted / "sitecustomize.py").write_text(
            f"import time\ntrue = time.time\ntime.time = lambda: true() + {seconds}\n"
        )
        network.config.write_text(network.ssh_config(**{node: f'SetEnv PYTHONPATH="{planted}"'}))
        put(
            network,
            "train.py",
            "import keras, numpy as np, os, tfmuster\n"
            "x = np.arange(64.0).reshape(32, 2) / 64\n"
            "class Fail(keras.callbacks.Callback):\n"
            "    def on_epoch_end(self, epoch, logs=None):\n"
            "        if epoch == 2 and os.environ['TFMUSTER_RESTART'] == '0': os._exit(3)\n"
            "with tfmuster.strategy('multi_worker_mirrored').scope():\n"
            "    model = keras.Sequential([keras.layers.Dense(1)])\n"
            "    model.compile('sgd', 'mse')\n"
            "    saving = tfmuster.checkpoint_callback()\n"
            "    model.fit(x, x[:, :1], batch_size=8, epochs=6, verbose=0, callbacks=[Fail(), saving])\n"
            "print('trained')\n",
        )
        done = network.launch("-H", "node1,node2", "--max-restarts", 1, "--all-output", "train.py", limit=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(rf"tfmuster: the clock of {node} is (60.0 min|1.0 h) {about};", done.stderr)
        assert "restart 1 of 1" in done.stderr
        assert done.stdout.count("trained") == 2
        run = Run(only_run(network.work))
        assert run.status()["state"] == "done" and len(run.history()["loss"]) == 6

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
            "from tfmuster.rendezvous.task.meet import muster\n"
            "from tfmuster.cluster.tf_config import current_task\n"
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
        assert summary(done) == (
            "worker 0 on node1 failed with exit code 1: ValueError: on node1\n\n"
            "Traceback (most recent call last):\n"
            f'  File "{network.work}/t.py", line 7, in <module>\n'
            "    raise ValueError('on ' + os.uname().nodename)\n"
            "ValueError: on node1\n\n"
            "Full output: LOGS/worker-0.log\n"
        )

    def test_a_firewall_that_lets_one_way_through(self, network: Network) -> None:
        put_meet(network)
        network.firewall("node3", against="node2")
        begun = time.monotonic()
        done = network.launch("-H", ALL, "meet.py", 5, 99)
        assert in_time(begun, 15)
        network.nothing_left(2)
        assert done.returncode == 3
        port = read_json(only_run(network.work) / "run.json")["cluster"]["worker"][2].split(":")[1]
        assert re.sub(r"worker-\d", "worker-N", summary(done)) == (
            "The 4 tasks of the cluster can't work together.\n"
            f"  found: worker 1 can't reach worker 2 at node3:{port}: "
            "no answer (a firewall, or the machine is down)\n"
            f"  to do: open port {port} of node3 for worker 1 (firewall, security group, route), "
            "and check that the name resolves there\n\n"
            "Full output: LOGS/worker-N.log\n"
        )

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

    @pytest.mark.parametrize("command", [["t.py"], ["sh", "-c", f"{sys.executable} t.py; true"]])
    def test_a_worker_that_is_frozen(self, network: Network, command: list[str]) -> None:
        text = (
            "import os, signal, time\n"
            "print(os.getpid(), flush=True)\n"
            "if os.uname().nodename == 'node2': os.kill(os.getpid(), signal.SIGSTOP)\n"
            "time.sleep(99)\n"
        )
        put(network, "t.py", text)
        begun = time.monotonic()
        done = network.launch("-H", "node1,node2", "--", *command)
        assert in_time(begun, 20)
        network.nothing_left(2)
        (pid,) = lines_of(done, "worker 1")
        assert (done.returncode, summary(done)) == (
            1,
            f"worker 1 on node2 is frozen (process {pid} is stopped by a signal).\n\n"
            f"Its last lines:\n  {pid}\n\nFull output: LOGS/worker-1.log\n",
        )

    @pytest.mark.slow
    def test_a_worker_that_is_frozen_while_it_trains(self, network: Network) -> None:
        options = ["--dataset", "synthetic", "--epochs", 2000, "--steps-per-epoch", 5]
        process = network.start("-H", "node1,node2", "--", "tfmuster", "train", "mnist", *options)
        logs = network.work / "runs"
        wait_until(
            lambda: any(re.search("epoch +2/", log.read_text()) for log in logs.glob("*/logs/*.log")), 80
        )
        (worker,) = [line for line in network.machines["node2"].processes() if " train mnist" in line]
        os.kill(int(worker.split(":")[0]), signal.SIGSTOP)
        begun = time.monotonic()
        _, err = process.communicate(timeout=30)
        assert in_time(begun, 20)
        network.nothing_left(2)
        pid = Run(only_run(network.work)).status()["tasks"]["worker 1"]["pid"]
        assert f"\n\nworker 1 on node2 is frozen (process {pid} is stopped by a signal).\n" in err

    def cut_off_is_named(self, network: Network, process: subprocess.Popen[str]) -> None:
        begun = time.monotonic()
        network.cut("node3")
        out, err = process.communicate(timeout=30)
        # 10 s until the cause is named, then the others may be deaf.
        assert in_time(begun, 14)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        network.nothing_left(10, but_logins_of="node3")
        network.drop_logins("node3")
        assert done.returncode == 1
        text = re.sub(r"for \d+ s", "for N s", summary(done))
        assert text.startswith("worker 2 on node3 was lost: nothing heard for N s.\n\nIts last lines:\n  ")
        assert text.endswith(
            "\n  tfmuster: node3 was lost: nothing heard for N s\n\n"
            "Full output: LOGS/worker-2.log\n"
            "To do: Check that node3 is up, and that the network lets its connection last.\n"
        )
