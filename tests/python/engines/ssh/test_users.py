"""Workers on other machines of a user who is not root there, nor on the launcher's machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from support.hosts import built, lines_of, put, why_not
from support.users import NUMBER, Users

#: A program of several workers that says who runs it, and leaves a file.
PROGRAM = """
import os
from pathlib import Path
from tfmuster.cluster.tf_config import current_task
from tfmuster.rendezvous.task.meet import muster
task = current_task()
muster(task)
print(os.getuid(), os.path.expanduser("~"))
if task.index == 0:
    Path("model.keras").write_text("trained")
"""


# The servers of forked programs are root's.
@pytest.mark.fresh
@pytest.mark.timeout(120)
def test_nobody_has_to_be_root() -> None:
    if reason := why_not():
        pytest.skip(reason)
    # Other users can't enter the folders of pytest.
    with tempfile.TemporaryDirectory() as folder, built(Path(folder)) as network:
        Path(folder).chmod(0o755)
        users = Users(network)
        users.build()
        put(network, "train.py", PROGRAM)
        (network.work / "train.py").write_text(PROGRAM)
        for sent in ((), ("--copy",)):
            done = users.launch("-H", "node1,node2", "--all-output", *sent, "train.py")
            assert done.returncode == 0, done.stderr
            for task in ("worker 0", "worker 1"):
                assert f"{NUMBER} {users.home}" in lines_of(done, task), done.stdout
        runs = network.work / "runs"
        (model,) = runs.glob("*/files/model.keras")
        assert model.read_text() == "trained"
        assert {path.stat().st_uid for path in runs.rglob("*")} == {NUMBER}
        network.nothing_left(seconds=5)
