"""Workers in a network of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.launching import nothing_left, start_tfmuster, tfmuster, wait_until, write
from tfmuster.system import private_network as networks
from tfmuster.system.private_network import private_network

pytestmark = pytest.mark.timeout(60)


def _works() -> bool:
    try:
        with private_network():
            return True
    except OSError:
        return False


needs_network = pytest.mark.skipif(not _works(), reason="this system makes no network namespaces")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path) -> Iterator[None]:
    yield
    nothing_left(tmp_path)


@needs_network
def test_workers_reach_each_other_and_nobody_else_reaches_them(tmp_path: Path) -> None:
    """A worker listens on a port of all interfaces; the other worker connects, and this process can't."""
    write(
        tmp_path,
        "talk.py",
        "import json, os, socket, time",
        "print([name for _, name in socket.if_nameindex()], flush=True)",
        "tf_config = json.loads(os.environ['TF_CONFIG'])",
        "host, port = tf_config['cluster']['worker'][0].rsplit(':', 1)",
        "if tf_config['task']['index'] == 0:",
        "    listener = socket.create_server(('', int(port)))",
        "    open('port.new', 'w').write(port); os.replace('port.new', 'port')",
        "    print('heard', listener.accept()[0].recv(100), flush=True)",
        "else:",
        "    while not os.path.exists('enough'): time.sleep(0.02)",
        "    socket.create_connection((host, int(port))).sendall(b'hello')",
    )
    job = start_tfmuster("launch", "--all-output", "-n", "2", "--isolated", "talk.py", cwd=tmp_path)
    wait_until((tmp_path / "port").exists)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int((tmp_path / "port").read_text())), timeout=5)
    (tmp_path / "enough").touch()
    output = job.communicate(timeout=30)[0]
    assert job.returncode == 0, output
    assert output.count("['lo']") == 2 and "heard b'hello'" in output


@needs_network
def test_the_network_ends_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    write(tmp_path, "wait.py", "import time; open('here', 'w').close(); time.sleep(60)")
    job = start_tfmuster("launch", "-n", "1", "--isolated", "wait.py", cwd=tmp_path)
    wait_until((tmp_path / "here").exists)
    job.kill()
    job.communicate(timeout=10)
    nothing_left(tmp_path, 10)


@needs_network
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become a user")
def test_a_user_who_is_not_root_gets_one(tmp_path: Path) -> None:
    """The system's Python runs the module alone, since another user may not read this checkout."""
    shutil.copy(networks.__file__, tmp_path / "private_network.py")
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    program = (
        "import subprocess, sys; sys.path.insert(0, '.')\n"
        "from private_network import private_network\n"
        "with private_network() as enter:\n"
        "    subprocess.run([*enter, 'sh', '-c', 'id -u; cat /proc/net/dev'])"
    )
    user = ["setpriv", "--reuid=64123", "--regid=64123", "--clear-groups"]
    done = subprocess.run(
        [*user, "/usr/bin/python3", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("this kernel gives users no namespaces")
    uid, _, _, *interfaces = done.stdout.splitlines()
    assert uid == "64123" and [line.split(":")[0].strip() for line in interfaces] == ["lo"], done


def test_where_it_is_impossible_is_said(tmp_path: Path) -> None:
    write(tmp_path, "program.py", "print('ran')")
    tools = tmp_path / "tools"
    tools.mkdir()
    done = tfmuster("launch", "--isolated", "program.py", cwd=tmp_path, PATH=str(tools))
    assert done.returncode == 2 and "ran" not in done.stdout
    assert "can't get a network of their own" in done.stderr and "nsenter" in done.stderr


def test_it_is_for_this_machine(tmp_path: Path) -> None:
    write(tmp_path, "program.py", "print('ran')")
    done = tfmuster("launch", "--isolated", "--hosts", "elsewhere:2", "program.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "--isolated needs a backend that reads it." in done.stderr
