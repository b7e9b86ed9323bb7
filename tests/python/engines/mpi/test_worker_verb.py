"""``mpirun -np 4 tfmuster worker -- SCRIPT`` with Debian's MPIs, on this machine and between machines."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.hosts import Network, put
from support.launching import TFMUSTER, write
from support.mpi import FLAVOURS, WORKER, command_lines, mpirun, needs_open_mpi
from support.paths import PROGRAMS
from support.r import NEEDS_R

TELL = (
    "import json, os, sys",
    "told = json.loads(os.environ['TF_CONFIG'])",
    "names = ('OMPI_COMM_WORLD_RANK', 'PMI_RANK')",
    "rank = next(int(os.environ[name]) for name in names if name in os.environ)",
    "line = [rank, told['task']['index'], told['cluster']['worker'], os.environ['TFMUSTER_TOKEN']]",
    "sys.stdout.write(json.dumps(line) + '\\n')",
)


def told(text: str) -> list[list[object]]:
    return sorted(json.loads(line) for line in text.splitlines() if line.startswith("["))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_rank_learns_of_all(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "tell.py", *TELL)
    done = mpirun(flavour, "-np", 3, *WORKER, "tell.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    places = told(done.stdout)
    assert [place[:2] for place in places] == [[0, 0], [1, 1], [2, 2]]
    (addresses,) = {tuple(place[2]) for place in places}  # type: ignore[arg-type]
    assert len(set(addresses)) == 3
    (secret,) = {place[3] for place in places}
    assert len(secret) == 32  # type: ignore[arg-type]
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert "worker 0 at 127.0.0.1:" in done.stderr
    assert "by MPI, with 2 others" in done.stderr


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_secret_is_on_no_command_line(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "tell.py", *TELL, "import time", "time.sleep(1)")
    with command_lines() as words:
        done = mpirun(flavour, "-np", 2, *WORKER, "tell.py", cwd=tmp_path)
    ((*_, secret), _) = told(done.stdout)
    assert any("tell.py" in word for word in words)
    assert not [word for word in words if str(secret) in word]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_ports_by_base_port_and_local_rank(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "tell.py", *TELL)
    done = mpirun(flavour, "-np", 2, *WORKER, "--base-port", 14000, "tell.py", cwd=tmp_path)
    assert [place[2] for place in told(done.stdout)] == [["127.0.0.1:14000", "127.0.0.1:14001"]] * 2


@needs_open_mpi
@pytest.mark.parametrize("installed", [True, False])
def test_with_mpi4py_and_without(tmp_path: Path, installed: bool) -> None:
    write(tmp_path, "tell.py", *TELL)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    if installed:
        pytest.importorskip("mpi4py")
        # Open MPI's library alone would not do.
        write(hidden, "sitecustomize.py", "import ctypes", "ctypes.create_string_buffer = None")
    else:
        write(hidden, "mpi4py.py", "raise ImportError")
    done = mpirun(
        "mpirun.openmpi", "-np", 2, *WORKER, "tell.py", cwd=tmp_path, PYTHONPATH=f"{hidden}:{sys.path[-1]}"
    )
    assert len(told(done.stdout)) == 2, done.stderr


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "end", ["sys.exit(4)", "raise ValueError('no such column')", "os.kill(os.getpid(), 9)"]
)
def test_one_rank_that_fails_ends_all(tmp_path: Path, flavour: str, end: str) -> None:
    # It fails before it meets the others, whatever they do.
    lines = ("import time", f"if rank == 1: {end}", "time.sleep(99)")
    write(tmp_path, "train.py", *TELL, "import os", *lines)
    begun = time.monotonic()
    done = mpirun(flavour, "-np", 3, *WORKER, "train.py", cwd=tmp_path)
    assert done.returncode not in (0, None)
    assert in_time(begun, 15)
    assert ("ValueError: no such column" in done.stderr) == end.startswith("raise")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_one_rank_that_can_not_start_its_program_ends_all(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "train.py", "import time; time.sleep(99)")
    ranks = ("-np", 1, *WORKER, "nope.py", ":", "-np", 2, *WORKER, "train.py")
    begun = time.monotonic()
    done = mpirun(flavour, *ranks, cwd=tmp_path)
    assert done.returncode not in (0, None)
    assert "no file nope.py" in done.stderr
    assert in_time(begun, 15)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_rank_that_takes_no_part_ends_all_in_time(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "train.py", "")
    ranks = ("-np", 2, *WORKER, "train.py", ":", "-np", 1, "sleep", 99)
    begun = time.monotonic()
    done = mpirun(flavour, *ranks, cwd=tmp_path, TFMUSTER_START_TIMEOUT="3")
    assert done.returncode not in (0, None)
    assert "not all 3 ranks have taken part within 3 s" in done.stderr
    assert in_time(begun, 20)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_rank_that_does_not_come_to_the_rendezvous_is_named(tmp_path: Path, flavour: str) -> None:
    # It has started, but never makes a strategy.
    write(
        tmp_path, "train.py", *TELL, "import time", "if rank == 2: time.sleep(99)", "sys.argv[1:] = '4', '0'"
    )
    (tmp_path / "train.py").open("a").write((PROGRAMS / "meet.py").read_text())
    done = mpirun(flavour, "-np", 3, *WORKER, "train.py", cwd=tmp_path)
    assert done.returncode not in (0, None)
    assert re.search(r"worker 2\b", done.stderr)
    assert "RendezvousError" in done.stderr


@needs_open_mpi
@NEEDS_R
def test_training_by_an_r_script(tmp_path: Path) -> None:
    # A file for each rank: R writes its lines in pieces, and mpirun shows those of all ranks as they come.
    options = ("--output-filename", tmp_path / "out", "-np", 2)
    done = mpirun("mpirun.openmpi", *options, *WORKER, PROGRAMS / "unaware.R", cwd=tmp_path, limit=150)
    assert done.returncode == 0, done.stderr
    outputs = [path.read_text() for path in (tmp_path / "out").rglob("stdout")]
    weights = [re.findall("replicas 2 weights (.*)", text) for text in outputs]
    assert len(weights) == 2
    assert weights[0] == weights[1] != []


@pytest.mark.parametrize("flavour", FLAVOURS[1:])
def test_train_by_itself_is_one_of_the_ranks(tmp_path: Path, flavour: str) -> None:
    numbers = ("--dataset", "synthetic", "--model", "softmax", "--epochs", 1, "--steps-per-epoch", 5)
    done = mpirun(flavour, "-np", 2, *TFMUSTER, "train", "mnist", *numbers, cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("100 images per replica x 2 = global batch 200") == 1, done.stdout


@pytest.mark.parametrize("flavour", FLAVOURS[1:])
def test_strategy_alone_under_mpirun(tmp_path: Path, flavour: str) -> None:
    lines = (
        "import tfmuster",
        "strategy = tfmuster.strategy('multi_worker_mirrored')",
        "import sys",
        "sys.stdout.write(f'replicas {strategy.num_replicas_in_sync}\\n')",
    )
    write(tmp_path, "train.py", *lines)
    done = mpirun(flavour, "-np", 2, sys.executable, "train.py", cwd=tmp_path, limit=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("replicas 2") == 2


@needs_open_mpi
def test_ranks_on_several_machines_train(network: Network) -> None:
    put(network, "unaware.py", (PROGRAMS / "unaware.py").read_text())
    ssh = ("--mca", "plm_rsh_agent", f"ssh -F {network.config}")
    # TensorFlow imports what it has written to the temporary folder, which is to be left empty.
    variables = ("-x", "PYTHONPATH", "-x", "PYTHONDONTWRITEBYTECODE=1")
    options = ("--allow-run-as-root", "--bind-to", "none", *ssh, *variables)
    hosts = ("-H", "node1:1,node2:2", "-np", 3)
    said = network.run_here("mpirun.openmpi", *options, *hosts, *WORKER, "unaware.py")
    weights = re.findall("replicas 3 weights ([0-9.]+)", said)
    assert len(weights) == 3
    assert len(set(weights)) == 1


@needs_open_mpi
@pytest.mark.parametrize("given", [(), ("--run-dir", "kept")], ids=["beside the script", "run-dir"])
def test_a_program_continues_from_its_checkpoints(tmp_path: Path, given: tuple[str, ...]) -> None:
    """The same program as under a launcher, which gives it a run directory."""
    (tmp_path / "own").mkdir()
    write(
        tmp_path / "own",
        "train.py",
        "import os, sys, keras, numpy as np, tfmuster",
        "strategy = tfmuster.strategy('multi_worker_mirrored')",
        "keras.utils.set_random_seed(1)",
        "class Fail(keras.callbacks.Callback):",
        "    def on_epoch_end(self, epoch, logs=None):",
        "        if 'fail' in sys.argv and epoch == 1: os._exit(3)",
        "x = np.arange(32.0).reshape(16, 2) / 32",
        "with strategy.scope():",
        "    model = keras.Sequential([keras.layers.Dense(1)])",
        "    model.compile('sgd', 'mse')",
        "    saving = tfmuster.checkpoint_callback()",
        "    model.fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0, callbacks=[saving, Fail()])",
        "path = tfmuster.save_model(model)",
        "print('WEIGHTS', model.get_weights()[0].ravel().tolist(), path)",
    )
    place = tmp_path / "kept" if given else tmp_path / "own"
    run = ("mpirun.openmpi", "-np", 2, *WORKER, *given, "--", "own/train.py")
    failed = mpirun(*run, "fail", cwd=tmp_path)
    assert failed.returncode not in (0, None)
    assert len(list((place / "checkpoints").glob("*"))) >= 2
    done = mpirun(*run, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tfmuster: resumes after step 4: epoch 3, step 0" in done.stderr
    assert str(place / "model.keras") in done.stdout
    weights = re.findall(r"WEIGHTS (\[.*?\])", done.stdout)
    # Those of a training that nothing has interrupted.
    whole = mpirun(*run[:3], *WORKER, "--run-dir", "other", "--", "own/train.py", cwd=tmp_path)
    assert weights == re.findall(r"WEIGHTS (\[.*?\])", whole.stdout) and len(weights) == 2
