"""Workers on other machines: four real ones, each with an ssh server."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support import jax
from support.clock import in_time
from support.hosts import ALL, ECHO, NETWORK, Network, lines_of, put, summary
from support.launching import DISK_IS_FULL, TFMUSTER, only_run, read_json, wait_until
from support.paths import PROGRAMS
from support.r import NEEDS_R
from tfmuster.launcher.engines.hosts import Host
from tfmuster.launcher.engines.ssh import Ssh
from tfmuster.options import places
from tfmuster.system.limits import usable_cores
from tfmuster.tracking.lifecycle.preemption import can_save
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.timeout(120)


def test_neither_keys_nor_tickets_are_forwarded(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  ForwardAgent yes\n  GSSAPIDelegateCredentials yes\n")
    ssh = Ssh(places.Ssh(ssh_config=str(config)))
    *command, _ = ssh.agent_command(Host("node1", 1), 30.0)
    said = subprocess.run([command[0], "-G", *command[1:]], capture_output=True, text=True, check=True).stdout
    assert {"forwardagent no", "gssapidelegatecredentials no"} <= set(said.splitlines())


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

    def test_more_tasks_than_a_host_carries_start_only_if_asked_for(self, network: Network) -> None:
        put(network, "hello.py", "print('hello')")
        cores, many = usable_cores(), 4 * usable_cores() + 1
        hosts = ("-H", f"node1,node2:{many}")
        done = network.launch(*hosts, "hello.py")
        assert done.returncode == 2
        assert (
            "Error: 1 of the 2 hosts can't take part.\n"
            f"  found: node2: processes: {many}, cores: {cores}, of which each carries 4\n"
        ) in done.stderr
        assert re.search(r"  to do: node2: start at most \d+ processes there, or set --oversub", done.stderr)
        assert not (network.work / "runs").exists()
        done = network.launch(*hosts, "--oversubscribe", "--all-output", "hello.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("hello") == many + 1

    def test_home_directories_may_differ(self, network: Network, tmp_path: Path) -> None:
        home = tmp_path / "another home"
        home.mkdir()
        program = (
            "from tfmuster.cluster.tf_config import current_task\n"
            "from tfmuster.rendezvous.task.meet import muster\n"
            "muster(current_task())\n"
            "import os\nprint('at home in', os.path.expanduser('~'), 'works in', os.getcwd())\n"
        )
        put(network, "meet.py", program)
        (network.work / "meet.py").write_text(program)
        with network.account("node2", home=home):
            for sent in ((), ("--copy",)):
                done = network.launch("-H", "node1,node2", "--all-output", *sent, "meet.py")
                assert done.returncode == 0, done.stderr
                homes = [lines_of(done, f"worker {index}")[-1].split(" works in ")[0] for index in range(2)]
                assert homes == [f"at home in {Path.home()}", f"at home in {home}"]

    def test_a_stale_file_is_named_before_anything_starts(self, network: Network) -> None:
        put(network, "train.py", "import layers\nprint('trained with', layers.ACTIVATION)\n")
        put(network, "layers.py", "ACTIVATION, UNITS = 'relu', 8\n")
        put(network, "layers.py", "ACTIVATION, UNITS = 'relu', 9\n", on=["node3"])
        done = network.launch("-H", "node1,node2,node3", "train.py")
        assert done.returncode == 2
        assert (
            "Error: 1 of the 3 hosts can't take part.\n"
            "  found: node3: layers.py has other code than on node1\n"
            "  to do: node3: copy it there, or send that of this machine to all with --file layers.py\n"
        ) in done.stderr
        assert not (network.work / "runs").exists()
        (network.work / "train.py").write_text("import layers\nprint('trained with', layers.UNITS)\n")
        (network.work / "layers.py").write_text("UNITS = 10\n")
        sent = ["--copy", "--file", "layers.py", "--all-output"]
        done = network.launch("-H", "node1,node2,node3", *sent, "train.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("trained with 10") == 3

    @pytest.mark.skipif("FORK_SERVERS" not in os.environ, reason="programs are not forked here")
    def test_forked_programs_are_on_their_machines(self, network: Network) -> None:
        """What support/forks.py does is as true there; see jobs/test_forked_workers.py."""
        program = (
            "import json, os, sys, tempfile  # not tensorflow\n"
            "forked, code = hasattr(sys, 'forked_for_test'), int(sys.argv[1])\n"
            "one = os.readlink('/proc/self') == os.popen('echo $PPID').read().strip()\n"
            "address = os.popen('ip -4 -br address show dev eth0').read().split()[2]\n"
            "places = os.uname().nodename, address, os.getcwd(), tempfile.gettempdir()\n"
            "print(json.dumps([forked, one, *places]))\n"
            "sys.exit(code)\n"
        )
        put(network, "where.py", program)
        for code in (0, 3):
            done = network.launch("-H", "node1,node2", "where.py", code)
            assert done.returncode == (1 if code else 0), done.stderr
            for index in range(2):
                machine = network.machines[f"node{index + 1}"]
                assert json.loads(lines_of(done, f"worker {index}")[0]) == [
                    *(True, True, machine.name, f"{machine.address}/24"),
                    *(str(network.work), str(machine.temporary)),
                ]
        assert "exit code 3" in done.stderr

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
        wait_until(lambda: len([p for p in early.glob("*/node*") if p.read_text() == "early"]) == 2)
        assert process.poll() is None
        assert process.wait(20) == 0
        run = only_run(network.work)
        for name in ("node1", "node2"):
            assert (run / "some" / name / "model.keras").read_bytes() == bytes(300_000)
        assert read_json(run / "status.json")["state"] == "done"
        assert not list(network.in_work("node1").iterdir())

    def test_what_the_chief_writes_beside_a_sent_script_comes_back(self, network: Network) -> None:
        (network.work / "train.py").write_text(
            "import os, pathlib, own\n"
            "index = own.index()\n"
            "pathlib.Path(f'model-{index}.keras').write_bytes(bytes(300_000))\n"
            "pathlib.Path('exported/deep').mkdir(parents=True)\n"
            "pathlib.Path('exported/deep/weights').write_text(f'of {index}')\n"
            "pathlib.Path('data.txt').write_text(f'changed by {index}')\n"
            "pathlib.Path('.hidden').write_text('stays')\n"
            "with open('large', 'wb') as file: file.truncate((2 << 30) + 1)\n"
        )
        (network.work / "own.py").write_text(
            "import json, os\ndef index(): return json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
        )
        (network.work / "data.txt").write_text("as sent")
        done = network.launch("-H", "node1,node2", "--file", "own.py", "--file", "data.txt", "train.py")
        assert done.returncode == 0, done.stderr
        files = only_run(network.work) / "files"
        found = {str(path.relative_to(files)) for path in files.rglob("*") if path.is_file()}
        assert found == {"data.txt", "exported/deep/weights", "model-0.keras"}
        assert (files / "model-0.keras").read_bytes() == bytes(300_000)
        assert (files / "exported/deep/weights").read_text() == "of 0"
        assert (files / "data.txt").read_text() == "changed by 0"
        assert (network.work / "data.txt").read_text() == "as sent"
        came, kept = lines_of(done, "worker 0")
        names = "data.txt, exported/deep/weights, model-0.keras"
        assert came == f"tfmuster: {names} came back, to files/ of the run directory"
        where = re.fullmatch(r"tfmuster: large: too large to come back, kept on node1 in (\S+)", kept)
        assert where is not None, kept
        folder = Path(where[1])
        assert folder.parent == network.machines["node1"].temporary
        assert [(path.name, path.stat().st_size) for path in folder.iterdir()] == [("large", (2 << 30) + 1)]
        assert "files of the program" not in done.stderr
        shutil.rmtree(folder)

    def test_no_more_comes_back_than_the_limit(self, network: Network) -> None:
        sizes = {"small": 10, "medium": 1 << 20, "large": (1 << 20) + 1}
        writes = "".join(f"open({name!r}, 'wb').write(bytes({size}))\n" for name, size in sizes.items())
        (network.work / "train.py").write_text(writes)
        done = network.launch("-H", "node1", "--copy", "--fetch-limit", "2", "train.py")
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in (only_run(network.work) / "files").iterdir()) == [
            "medium",
            "small",
        ]
        _, kept = lines_of(done, "worker 0")
        where = re.fullmatch(r"tfmuster: large: too large to come back, kept on node1 in (\S+)", kept)
        assert where is not None, kept
        shutil.rmtree(where[1])

    def test_where_files_are_that_do_not_come_back(self, network: Network) -> None:
        writes = "import pathlib, time\npathlib.Path('model.keras').write_text('a model')\n"
        put(network, "train.py", writes)
        done = network.launch("-H", "node1", "train.py")
        assert done.returncode == 0, done.stderr
        where = f"on node1, in {network.work}\n"
        assert f"tfmuster: files that the program wrote into its working directory are {where}" in done.stderr
        assert (network.in_work("node1") / "model.keras").read_text() == "a model"
        (network.work / "train.py").write_text(f"{writes}print('written', flush=True)\ntime.sleep(60)\n")
        process = network.start("-H", "node1", "--copy", "train.py")
        assert process.stdout is not None and "written" in process.stdout.readline()
        network.cut("node1")
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        found = re.search(r"files of the program that have not come back may be on node1, in (\S+)\n", said)
        assert found is not None, said
        wait_until((Path(found[1]) / "model.keras").exists, 30)
        assert (Path(found[1]) / "model.keras").read_text() == "a model"
        shutil.rmtree(found[1])
        network.nothing_left(10, but_logins_of="node1")
        network.drop_logins("node1")

    def test_files_are_sent_to_where_they_are_here(self, network: Network) -> None:
        names = ['it\'s "$(touch pwned)"\nx', "-x", "data/`touch pwned`/ *", "data/größer", "layers/deep.py"]
        for name in names:
            (network.work / name).parent.mkdir(parents=True, exist_ok=True)
            (network.work / name).write_text(name)
        (network.work / "big").write_bytes(os.urandom(1 << 20) * 20)
        (network.work / "tool").write_text("#!/bin/sh\necho the tool runs")
        (network.work / "tool").chmod(0o755)
        (network.work / "layers/deep.py").write_text("names = " + repr(names[:4]))
        script = network.work / "layers/- my $(touch pwned) train.py"
        script.write_text(
            "import hashlib, os, subprocess, sys, deep\n"
            "for name in deep.names: assert open(name).read() == name, name\n"
            "print(subprocess.check_output(['./tool'], text=True), end='')\n"
            "print(hashlib.sha256(open('big', 'rb').read()).hexdigest(), sys.argv[1:])\n"
            "print(os.getcwd(), flush=True)\n"
        )
        files = ["--file", names[0], "--file", "-x", "--file=data", "--file", network.work / "layers/deep.py"]
        files += ["--file", "tool", "--file", "big"]
        done = network.launch("-H", "node1,node2", *files, "--", f"layers/{script.name}", "$(touch pwned)")
        assert done.returncode == 0, done.stdout + done.stderr
        digest = hashlib.sha256((network.work / "big").read_bytes()).hexdigest()
        for index in range(2):
            tool, told, directory = lines_of(done, f"worker {index}")
            assert (tool, told) == ("the tool runs", f"{digest} ['$(touch pwned)']")
            assert directory.startswith(f"{network.machines[f'node{index + 1}'].temporary}/")
            assert not list(network.in_work(f"node{index + 1}").iterdir())

    def test_a_relative_path_to_data_that_is_only_here_is_explained(self, network: Network) -> None:
        (network.work / "data").mkdir()
        np.savez(network.work / "data/x.npz", x=np.arange(4))
        script = network.work / "reads.py"
        script.write_text("import numpy as np\nprint(np.load('data/x.npz')['x'].sum(), flush=True)\n")
        hosts = ("-H", "node1,node2", "--copy")
        done = network.launch(*hosts, "--", "reads.py")
        assert done.returncode == 1, done.stdout + done.stderr
        said = summary(done)
        (host,) = set(re.findall(r"worker \d on (node[12]) failed with exit code 1", said))
        assert "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.npz'" in said
        assert said.endswith(
            f"\nTo do: The path data/x.npz is relative to the working directory on {host}. Send it with "
            "--file data/x.npz, or pass an absolute path that exists on all hosts.\n"
        )
        done = network.launch(*hosts, "--file", "data/x.npz", "--", "reads.py")
        assert done.returncode == 0, done.stderr
        assert [lines_of(done, f"worker {index}") for index in range(2)] == [["6"], ["6"]]

    @NEEDS_R
    def test_a_relative_path_in_r_to_data_that_is_only_here_is_explained(self, network: Network) -> None:
        (network.work / "x.csv").write_text("x\n1\n2\n")
        (network.work / "reads.R").write_text("cat(sum(read.csv('x.csv')$x), '\\n')\n")
        done = network.launch("-H", "node1", "--copy", "--", "reads.R")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "The path x.csv is relative to the working directory on node1." in summary(done)
        assert "Send it with --file x.csv, or pass" in summary(done)
        done = network.launch("-H", "node1", "--copy", "--file", "x.csv", "--", "reads.R")
        assert lines_of(done, "worker 0") == ["3"], done.stderr

    def test_files_for_a_command(self, network: Network) -> None:
        (network.work / "a b").write_text("text")
        done = network.launch("-H", "node1", "--file", "a b", "--", "cat", "a b")
        assert lines_of(done, "worker 0") == ["text"]

    def test_files_that_do_not_fit(self, network: Network) -> None:
        (network.work / "big").write_bytes(bytes(6 << 20))
        network.give_little_room("node2")
        done = network.launch("-H", "node1,node2", "--file", "big", "--", "sleep", 20)
        network.give_room("node2")
        assert summary(done) == (
            "worker 1 on node2 failed with exit code 2: The files that are sent must fit on the host.\n"
            f"  found: no space left on device in {network.machines['node2'].temporary} of node2\n"
            "  to do: Free some space, or set TMPDIR there to a file system with enough.\n\n"
            "Full output: LOGS/worker-1.log\n"
        )

    @DISK_IS_FULL
    def test_a_full_disk_here(self, network: Network) -> None:
        # To write past a size limit fails as it does on a full disk.
        text = "import os, time; open(os.environ['TFMUSTER_RUN_DIR'] + '/model', 'wb').write(bytes(50_000))\n"
        put(network, "t.py", text + "time.sleep(60)\n")
        launch = 'ulimit -f 16; "$@" 2>&1; echo "exit code $?"'
        said = network.run_here("bash", "-c", launch, "bash", *TFMUSTER, "launch", "-H", "node1", "t.py")
        run = only_run(network.work)
        assert said == (
            f"tfmuster: 1 task on node1; run directory runs/{run.name}\n"
            "tfmuster: files that the program wrote into its working directory "
            f"are on node1, in {network.work}\n\n"
            "worker 0 on node1 failed with exit code 2: "
            "The run directory must be writable while the job runs.\n"
            f"  found: {run}: File too large\n"
            "  to do: Free some space, or choose another place with --run-dir.\n\n"
            f"Full output: {run}/logs/worker-0.log\n"
            "exit code 1\n"
        )

    def test_a_shared_run_directory_is_used_as_it_is(self, network: Network) -> None:
        put(network, "where.py", "import os; print(os.environ['TFMUSTER_RUN_DIR'])")
        shared = network.folder / "shared-run"
        done = network.launch("-H", "node1,node2", "--run-dir", shared, "where.py")
        assert lines_of(done, "worker 1") == [str(shared)]
        shutil.rmtree(shared)

    @NEEDS_R
    def test_an_r_script_runs_with_the_python_of_its_host(self, network: Network) -> None:
        put(
            network,
            "train.R",
            "cat(Sys.getenv('RETICULATE_PYTHON'), commandArgs(TRUE), nchar(Sys.getenv('TF_CONFIG')) > 0)",
        )
        done = network.launch("-H", "node1,node2", "train.R", "$(7)")
        assert done.returncode == 0, done.stderr
        assert lines_of(done, "worker 1") == [f"{sys.executable} $(7) TRUE"]

    def test_a_host_behind_a_jump_host(self, network: Network) -> None:
        put(network, "t.py", ECHO)
        # Only the machines know the name node2.
        inner = f"Host inner\n  HostName node2\n  HostKeyAlias {NETWORK}.2\n  ProxyJump node1\n"
        network.config.write_text(inner + network.ssh_config())
        done = network.launch("-H", "inner", "t.py")
        assert done.returncode == 0, done.stderr
        assert json.loads(lines_of(done, "worker 0")[0])[0] == "node2"

    def test_from_python_and_in_the_background(self, network: Network) -> None:
        put(network, "t.py", "import sys\nsys.exit(int(sys.argv[1]))\n")
        program = (
            "from tfmuster import Ssh, launch\n"
            "from tfmuster.errors import WorkerError\n"
            "run = launch('t.py', '0', on=Ssh('node1,node2:2'), quiet=True)\n"
            "print(run.status()['state'], len(run.status()['tasks']))\n"
            "run = launch('t.py', '0', on=Ssh('node1,node2:2'), wait=False)\n"
            "print(run.wait(20)['state'])\n"
            "try:\n    launch('t.py', '4', on=Ssh('node2'), quiet=True)\n"
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
            "open('.token', 'w').write(token)\n"
            "os.replace('.token', 'token')\n"
            "__import__('time').sleep(2)\n"
        )
        put(network, "looks.py", looks)
        process = network.start("-H", "node1,node2", "--all-output", "looks.py")
        wait_until((network.in_work("node1") / "token").exists, 15)
        token = (network.in_work("node1") / "token").read_bytes()
        here = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, check=True).stdout
        assert b"tfmuster.launcher.remote.agents.agent" in here and token not in here
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
        assert in_time(begun, 10)
        network.nothing_left(1)
        assert done.returncode == 1
        assert summary(done).startswith(f"worker 1 on node2 {how}\n\nIts last lines:\n  last words\n")

    def test_a_run_shows_each_worker_s_host_and_its_process_there(self, network: Network) -> None:
        put(network, "t.py", "import os, time; print(os.getpid(), flush=True); time.sleep(99)")
        process = network.start("-H", "node1,node2", "t.py")
        logs = network.work / "runs"
        wait_until(lambda: sum(bool(log.read_text()) for log in logs.glob("*/logs/*.log")) == 2)
        run = Run(only_run(network.work))
        pids = [run.logs()[f"worker {index}"].strip() for index in range(2)]
        wait_until(lambda: all(entry["pid"] for entry in run.status()["tasks"].values()), 5)
        shown = [f"worker {i}:      running on node{i + 1}, process {pids[i]}" for i in range(2)]
        said = network.run_here(*TFMUSTER, "runs", "show").splitlines()
        assert [line for line in said if line.startswith("worker ")] == shown
        os.kill(process.pid, signal.SIGINT)
        process.wait(10)
        said = network.run_here(*TFMUSTER, "runs", "show").splitlines()
        assert f"worker 1:      ended on node2, process {pids[1]}, SIGTERM" in "\n".join(said)

    @pytest.mark.parametrize(
        ("names", "code"), [("SIGINT", 130), ("SIGINT SIGINT", 130), ("SIGTERM", 130), ("SIGKILL", -9)]
    )
    def test_nothing_runs_on_after_the_launcher(self, network: Network, names: str, code: int) -> None:
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
        for name in names.split():
            process.send_signal(signal.Signals[name])
            time.sleep(0.3)
        _, err = process.communicate(timeout=5)
        assert process.returncode == code
        assert "Traceback" not in err
        network.nothing_left(5 - (time.monotonic() - begun))

    def test_variables_are_sent_also_by_a_launcher_in_the_background(self, network: Network) -> None:
        put(
            network,
            "t.py",
            "import os; print(os.environ['COLOR'], os.environ['SHADE'], os.environ.get('TONE'))",
        )
        variables = ("--env", "COLOR=light blue", "--env", "SHADE")
        done = network.launch(
            "-H", "node1,node2", "--detach", *variables, "t.py", SHADE="a=b", TONE="not sent"
        )
        assert done.returncode == 0, done.stderr
        run = Run(only_run(network.work))
        assert run.wait(20)["state"] == "done"
        for index in range(2):
            assert (run.path / "logs" / f"worker-{index}.log").read_text() == "light blue a=b None\n"

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

    @pytest.mark.parametrize("shared", [True, False])
    def test_all_start_again(self, network: Network, tmp_path: Path, shared: bool) -> None:
        """What the chief has written in its run directory is there again."""
        written = tmp_path / "written"
        text = (
            "import os, pathlib, time\n"
            "first = os.environ['TFMUSTER_RESTART'] == '0'\n"
            f"written = pathlib.Path({str(written)!r})\n"
            "note = pathlib.Path(os.environ['TFMUSTER_RUN_DIR'], 'notes', os.environ['TFMUSTER_IS_CHIEF'])\n"
            "print('first' if first else 'second', note.exists() and len(note.read_text()), flush=True)\n"
            "if first:\n"
            "    note.parent.mkdir(exist_ok=True)\n"
            "    note.write_text('x' * 100_000)\n"
            "if first and os.uname().nodename == 'node1': written.touch()\n"
            "if first and os.uname().nodename == 'node2':\n"
            "    while not written.exists(): time.sleep(0.05)\n"
            "    os.kill(os.getpid(), 9)\n"
            "time.sleep(60 if first else 0)\n"
        )
        put(network, "t.py", text)
        run_dir = tmp_path / "run" if shared else network.work / "runs" / "own"
        done = network.launch("-H", "node1,node2", "--max-restarts", 1, "--run-dir", run_dir, "t.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "tfmuster: worker 1 on node2 was ended by SIGKILL; restart 1 of 1\n" in done.stderr
        assert lines_of(done, "worker 0") == ["first False", "second 100000"]
        assert read_json(run_dir / "status.json")["restarts"] == 1

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    def test_weights_after_a_restart_are_bitwise_equal(self, network: Network, tmp_path: Path) -> None:
        finals = []
        for ends in ([], ["1:killed:14"]):
            folder = tmp_path / str(len(ends))
            folder.mkdir()
            options = ["-H", "node1,node2", "--max-restarts", 1, "--run-dir", folder / "run"]
            done = network.launch(*options, "--", PROGRAMS / "mortal.py", folder, *ends, limit=140)
            assert done.returncode == 0, done.stdout + done.stderr
            assert Run(folder / "run").status()["restarts"] == len(ends)
            for index in range(2):
                with np.load(folder / f"final-{index}.npz") as file:
                    finals.append(dict(file))
        assert "worker 1 on node2 was ended by SIGKILL; restart 1 of 1\n" in done.stderr
        begins = [line for line in lines_of(done, "worker 1") if " begins with " in line]
        assert begins == ["attempt 0 begins with step 1", "attempt 1 begins with step 13"]
        assert sum(name.startswith("arr_") for name in finals[0]) > 3
        for final in finals[1:]:
            for name, value in finals[0].items():
                np.testing.assert_array_equal(final[name], value, err_msg=name)

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
        log = "*/logs/worker-1.log"
        wait_until(lambda: any("ready" in path.read_text() for path in (network.work / "runs").glob(log)), 15)
        (agent,) = [
            line
            for line in network.machines["node2"].processes()
            if "-c" in line and "import main" in line and "bash" not in line
        ]
        os.kill(int(agent.split(":")[0]), signal.SIGKILL)
        _, err = process.communicate(timeout=10)
        assert process.returncode == 1
        assert "\n\nworker 1 on node2 was lost: the connection was closed at the other end.\n" in err

    @pytest.mark.slow
    def test_mnist_is_trained(self, network: Network) -> None:
        options = ["--dataset", "synthetic", "--epochs", 2, "--steps-per-epoch", 2]
        done = network.launch("-H", ALL, "--", "tfmuster", "train", "mnist", *options, limit=110)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "64 images per replica x 4 = global batch 256" in done.stdout
        assert [
            line["epoch"] for line in map(json.loads, (only_run(network.work) / "metrics.jsonl").open())
        ] == [1, 2]

    @pytest.mark.slow
    def test_keras_on_jax_is_trained(self, network: Network) -> None:
        options = ("-H", "node1,node2", "--remote-python", jax.PYTHON)
        done = network.launch(*options, PROGRAMS / "jax_place.py", limit=110, KERAS_BACKEND="jax")
        assert done.returncode == 0, done.stdout + done.stderr
        first, second = (
            json.loads(next(line for line in lines_of(done, f"worker {index}") if line.startswith("[")))
            for index in range(2)
        )
        assert [host.split(":")[0] for host in first[0].split(",")] == ["node1", "node2"]
        assert (first[1:3], second[1:3]) == (["2", "0"], ["2", "1"])
        assert (first[0], first[3]) == (second[0], second[3])

    @pytest.mark.slow
    @pytest.mark.timeout(240)
    @pytest.mark.parametrize(("who", "shared"), [("launcher", True), ("worker 1", True), ("launcher", False)])
    def test_a_signal_makes_a_job_on_hosts_write_a_checkpoint(
        self, network: Network, tmp_path: Path, who: str, shared: bool
    ) -> None:
        """The workers' machines have the program, and with `shared` also the run directory."""
        run_dir = tmp_path / "run" if shared else network.work / "runs" / "own"
        program = (PROGRAMS / "preempted.py", tmp_path, "numpy", 4)
        process = network.start("-H", "node1,node2", "--seed", 5, "--run-dir", run_dir, "--", *program)
        run = Run(run_dir)
        reached = [network.in_work(machine) / f"reached-{i}" for i, machine in enumerate(("node1", "node2"))]
        wait_until(lambda: all(path.exists() for path in reached) or process.poll() is not None, 60)
        assert process.poll() is None, process.communicate()
        # Agents send small files once a second.
        wait_until(lambda: can_save(run.path))
        begun = time.monotonic()
        if who == "launcher":
            process.terminate()
        else:
            pid = run.status()["tasks"]["worker 1"]["pid"]
            subprocess.run([*network.inside("node2"), "kill", "-USR1", str(pid)], check=True)
        said, errors = process.communicate(timeout=60)
        number = signal.SIGTERM if who == "launcher" else signal.SIGUSR1
        assert process.returncode == 128 + number, said + errors
        assert in_time(begun, 20)
        assert (run.status()["state"], run.status()["signal"]) == ("preempted", number)
        for machine in ("node1", "node2"):
            (network.in_work(machine) / "fast").touch()
        done = network.launch("-H", "node1,node2", "--run-dir", run_dir, "--", *program, limit=100)
        for path in reached:
            path.unlink()
            path.with_name("fast").unlink()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "resumes after step" in done.stdout
        assert len(run.history()["loss"]) == 4
