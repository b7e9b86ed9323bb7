"""Every way to make a server of TensorFlow: it waits for its peers, and its port is guarded."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import nothing_left, tfmuster, write
from tfmuster.rendezvous.task.port_guard import guarding_works

pytestmark = pytest.mark.timeout(120)

SERVERS = {
    "spec": "tf.distribute.Server(tf.train.ClusterSpec(cluster), 'worker', index)",
    "dict": "tf.distribute.Server(cluster, job_name='worker', task_index=index)",
    "cluster_def": "tf.distribute.Server(tf.train.ClusterSpec(cluster).as_cluster_def(), 'worker', index)",
    "keyword": "tf.distribute.Server(server_or_cluster_def=cluster, job_name='worker', task_index=index)",
    "server_def": "tf.distribute.Server(tf.train.ServerDef(cluster=tf.train.ClusterSpec(cluster)"
    ".as_cluster_def(), job_name='worker', task_index=index, protocol='grpc'))",
    "v1": "tf.compat.v1.train.Server(cluster, 'worker', index)",
}


@pytest.mark.skipif(guarding_works() is not None, reason=f"guarding: {guarding_works()}")
@pytest.mark.parametrize("how", SERVERS)
def test_a_server_is_guarded_however_it_gets_its_cluster(tmp_path: Path, how: str) -> None:
    write(
        tmp_path,
        "serve.py",
        "import json, os",
        "import tensorflow as tf",
        "given = json.loads(os.environ['TF_CONFIG'])",
        "cluster, index = given['cluster'], given['task']['index']",
        f"server = {SERVERS[how]}",
        "from tfmuster.rendezvous.task import port_guard",
        "[guard] = port_guard._guards",
        "assert guard.door.guarding.wait(10)",
        # In one piece: the other worker may end meanwhile, and this one's stderr say so in the middle.
        "print(f'guarded {server.target}\\n', end='', flush=True)",
        "os._exit(0)",
    )
    done = tfmuster("launch", "--all-output", "-n", 2, "serve.py", cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("guarded grpc://") == 2
    nothing_left(tmp_path)


def test_a_server_of_one_process_is_left_alone(tmp_path: Path) -> None:
    """And so is what TensorFlow refuses."""
    write(
        tmp_path,
        "serve.py",
        "import os",
        "import tensorflow as tf",
        "print(tf.distribute.Server.create_local_server().target, flush=True)",
        "try:",
        "    tf.distribute.Server(5)",
        "except TypeError as error:",
        "    print(f'refused: {error}\\n', end='', flush=True)",
        "os._exit(0)",
    )
    done = tfmuster("launch", "--all-output", "-n", 2, "serve.py", cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("grpc://localhost:") == 2 and done.stdout.count("refused: ") == 2
    nothing_left(tmp_path)
