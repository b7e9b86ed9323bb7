"""Slurm itself, slurmctld and four slurmd: tasks find each other, train, fail, and are cancelled."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time

import numpy as np
import pytest

from support import jax
from support.clock import in_time
from support.hosts import lines_of
from support.launching import TFMUSTER, only_run, read_json, tfmuster, wait_until, write
from support.paths import PROGRAMS
from support.r import NEEDS_R
from support.slurm_cluster import Slurm
from tfmuster.errors import WorkerError
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.timeout(200)

WORKER = (*TFMUSTER, "worker")
LAUNCH = (*TFMUSTER, "launch", "--backend", "slurm")
PREEMPTED = PROGRAMS / "preempted.py"
#: Tells what Slurm says of its place, and what tfmuster makes of it.
TELL = (
    "import json, os, sys",
    "told = json.loads(os.environ['TF_CONFIG'])",
    "rank, node = int(os.environ['SLURM_PROCID']), os.environ['SLURMD_NODENAME']",
    "gpus = os.environ.get('CUDA_VISIBLE_DEVICES')",
    "line = [rank, node, told['task']['index'], told['cluster']['worker'], gpus]",
    "sys.stdout.write(json.dumps(line) + '\\n')",
    "sys.stdout.flush()",
)


def told(text: str) -> list[list[object]]:
    return sorted(json.loads(line) for line in text.splitlines() if line.startswith("["))


@pytest.mark.parametrize(
    "options",
    [
        ("-n", 6, "-N", 4),
        ("-n", 5, "-N", 2, "-m", "cyclic"),
        ("-n", 6, "-N", 2, "-m", "plane=2"),
        ("-n", 4, "-w", "vn10,vn2"),
        ("-N", 3, "--ntasks-per-node", 2, "-m", "block:cyclic"),
    ],
)
def test_every_task_finds_its_place(slurm: Slurm, options: tuple[object, ...]) -> None:
    write(slurm.shared, "tell.py", *TELL)
    done = slurm.run("srun", *options, *WORKER, "tell.py")
    assert done.returncode == 0, done.stderr
    tasks = told(done.stdout)
    (addresses,) = {tuple(task[3]) for task in tasks}  # type: ignore[arg-type]
    assert [task[2] for task in tasks] == [task[0] for task in tasks] == list(range(len(addresses)))
    # Each task is on the node that its address names.
    assert [address.partition(":")[0] for address in addresses] == [task[1] for task in tasks]
    assert len(set(addresses)) == len(tasks)


def test_the_base_port_is_the_first_of_each_node(slurm: Slurm) -> None:
    write(slurm.shared, "tell.py", *TELL)
    done = slurm.run("srun", "-n", 3, "-N", 2, *WORKER, "--base-port", 15000, "tell.py")
    first, *_ = told(done.stdout)
    assert sorted(address.partition(":")[2] for address in first[3]) == ["15000", "15000", "15001"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        (("--gres=gpu:2",), ["0", "1", "0", "1"]),
        (("--gpus-per-task=1",), ["0", "1", "0", "1"]),
        (("--gres=gpu:1",), ["0", "0", "0", "0"]),
        ((), [None] * 4),
    ],
)
def test_gpus_of_a_node_are_shared_out(
    slurm: Slurm, options: tuple[str, ...], gpus: list[str | None]
) -> None:
    write(slurm.shared, "tell.py", *TELL)
    done = slurm.run("srun", "-N", 2, "--ntasks-per-node", 2, *options, *WORKER, "tell.py")
    assert [task[4] for task in told(done.stdout)] == gpus, done.stderr


def test_training_by_the_verb(slurm: Slurm) -> None:
    train = ("tfmuster", "train", "mnist", "--dataset", "synthetic", "--epochs", 1, "--save", "model.keras")
    done = slurm.run("srun", "-n", 2, "-N", 2, *WORKER, "--", *train, limit=150)
    assert done.returncode == 0, done.stderr
    assert "global batch 128" in done.stdout
    assert (slurm.shared / "model.keras").stat().st_size > 100_000


def test_strategy_alone_under_srun(slurm: Slurm) -> None:
    lines = (
        "import tfmuster",
        "strategy = tfmuster.strategy('multi_worker_mirrored')",
        "import sys",
        "sys.stdout.write(f'replicas {strategy.num_replicas_in_sync}\\n')",
    )
    write(slurm.shared, "train.py", *lines)
    done = slurm.run("srun", "-n", 2, "-N", 2, sys.executable, "train.py", limit=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("replicas 2") == 2


def test_training_of_keras_on_jax(slurm: Slurm) -> None:
    worker = (jax.PYTHON, "-W", "ignore", "-m", "tfmuster", "worker")
    program = PROGRAMS / "jax_place.py"
    done = slurm.run("srun", "-n", 2, "-N", 2, *worker, program, limit=150, KERAS_BACKEND="jax")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = told(done.stdout)
    assert (first[1:3], second[1:3]) == (["2", "0"], ["2", "1"])
    assert (first[0], first[3]) == (second[0], second[3])


@NEEDS_R
def test_training_by_an_r_script(slurm: Slurm) -> None:
    done = slurm.run("srun", "-l", "-n", 2, "-N", 2, *WORKER, PROGRAMS / "unaware.R", limit=150)
    assert done.returncode == 0, done.stderr
    weights = re.findall("replicas 2 weights (.*)", done.stdout)
    assert len(weights) == 2
    assert len(set(weights)) == 1


def test_a_task_that_never_joins_is_named(slurm: Slurm) -> None:
    write(
        slurm.shared,
        "train.py",
        *TELL,
        "import time",
        "if rank == 2: time.sleep(99)",
        "sys.argv[1:] = '3', '0'",
    )
    with (slurm.shared / "train.py").open("a") as script:
        script.write((PROGRAMS / "meet.py").read_text())
    begun = time.monotonic()
    done = slurm.run("srun", "-K", "-n", 3, "-N", 3, *WORKER, "train.py")
    assert done.returncode not in (0, None)
    assert "waiting for worker 2 (vn9:" in done.stderr
    assert "RendezvousError" in done.stderr
    assert in_time(begun, 25)


def test_a_task_that_fails_ends_the_others_who_have_joined(slurm: Slurm) -> None:
    write(slurm.shared, "train.py", *TELL, "sys.argv[1:] = '20', '99' if rank else '0'")
    with (slurm.shared / "train.py").open("a") as script:
        script.write((PROGRAMS / "meet.py").read_text() + "raise ValueError('no such column')\n")
    begun = time.monotonic()
    # Without -K: the job's own control line tells the others.
    done = slurm.run("srun", "-n", 3, "-N", 3, *WORKER, "train.py")
    assert done.returncode not in (0, None)
    assert "ValueError: no such column" in done.stderr
    assert in_time(begun, 25)


def test_a_job_is_submitted_shown_and_kept(slurm: Slurm) -> None:
    write(slurm.shared, "train.py", *TELL, "print('argument', sys.argv[1:], os.environ['COLOUR'])")
    program = ("train.py", "a b", "$(touch pwned)", "it's")
    spread = "--backend-option=--nodes=2"
    done = slurm.run(*LAUNCH, "-n", 4, spread, "--name", 'say "%j"', *program, COLOUR="green")
    assert done.returncode == 0, done.stderr
    for index in range(4):
        place, argument = lines_of(done, f"worker {index}")
        assert json.loads(place)[2] == index
        assert argument == """argument ['a b', '$(touch pwned)', "it's"] green"""
    assert not list(slurm.shared.rglob("pwned"))
    run = only_run(slurm.shared)
    assert read_json(run / "status.json")["state"] == "done"
    assert read_json(run / "run.json")["slurm_job"].isdigit()
    assert (run / "logs" / "slurm.log").exists()


def test_a_dry_run_prints_what_would_be_submitted(slurm: Slurm) -> None:
    write(slurm.shared, "train.py", "print('trained')")
    done = slurm.run(*LAUNCH, "--dry-run", "-n", 2, "--gpus-per-worker", 1, "train.py")
    assert done.returncode == 0, done.stderr
    assert not list(slurm.shared.glob("runs"))
    assert '#SBATCH --ntasks="2"' in done.stdout
    assert '#SBATCH --gpus-per-task="1"' in done.stdout
    # What is printed is a batch script.
    script = write(slurm.shared, "job.sh", done.stdout)
    submitted = slurm.run("sbatch", "--wait", script)
    assert submitted.returncode == 0, submitted.stderr
    run = only_run(slurm.shared)
    assert (run / "logs" / "worker-1.log").read_text() == "trained\n"


def test_the_gpus_of_a_submitted_job(slurm: Slurm) -> None:
    write(slurm.shared, "tell.py", *TELL)
    options = ("-n", 2, "--gpus-per-worker", 1, "--backend-option=--nodes=1")
    done = slurm.run(*LAUNCH, *options, "tell.py")
    assert done.returncode == 0, done.stderr
    gpus = [json.loads(lines_of(done, f"worker {index}")[0])[4] for index in range(2)]
    assert sorted(gpus) == ["0", "1"]


def test_inside_an_allocation_srun_starts_the_workers(slurm: Slurm) -> None:
    write(slurm.shared, "tell.py", *TELL)
    done = slurm.run("salloc", "-n", 3, "-N", 3, *LAUNCH, "tell.py")
    assert done.returncode == 0, done.stderr
    assert "3 tasks on node1, node2, node3" in done.stderr
    few = slurm.run("salloc", "-n", 2, "-N", 1, *LAUNCH, "-n", 9, "tell.py")
    assert few.returncode == 2
    assert "9 tasks; srun: error: Unable to create step" in few.stderr


def test_a_submitted_job_trains_and_a_failure_is_named(slurm: Slurm) -> None:
    shutil.copy(PROGRAMS / "unaware.py", slurm.shared)
    done = slurm.run(*LAUNCH, "--all-output", "-n", 2, "--backend-option=--nodes=2", "unaware.py", limit=120)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("replicas 2 weights", done.stdout)) == 2
    write(slurm.shared, "train.py", *TELL, "import time", "if rank == 1: raise ValueError('no such column')")
    with (slurm.shared / "train.py").open("a") as script:
        script.write("time.sleep(99)\n")
    failed = slurm.run(*LAUNCH, "-n", 2, "train.py")
    assert failed.returncode == 1
    assert "worker 1 on node1 failed with exit code 1: ValueError: no such column" in failed.stderr


def test_the_end_of_a_submitted_job_is_known_without_the_controller(slurm: Slurm) -> None:
    lines = ("import pathlib, time", "print('runs', flush=True)", "while not pathlib.Path('go').exists():")
    write(slurm.shared, "train.py", *lines, "    time.sleep(0.1)")
    launched = slurm.popen(*LAUNCH, "-n", 1, "train.py")
    assert launched.stdout is not None
    assert "runs" in launched.stdout.readline()
    with slurm.without_controller():
        write(slurm.shared, "go", "")
        _, said = launched.communicate(timeout=100)
    assert launched.returncode == 0, said
    # The nodes tell their controller again only after a while.
    slurm.nothing_left(90)


def test_a_submitted_job_starts_again_and_gets_the_files_that_are_sent(slurm: Slurm) -> None:
    write(slurm.shared, "data.txt", "data")
    lines = (
        "again = os.environ['TFMUSTER_RESTART'] == '1'",
        "print('restart', again, open('data.txt').read().strip(), flush=True)",
        "sys.exit(9 if rank == 1 and not again else 0)",
    )
    write(slurm.shared, "train.py", *TELL, *lines)
    options = ("-n", 2, "--max-restarts", 1, "--file", "data.txt", "--backend-option=--nodes=2")
    done = slurm.run(*LAUNCH, *options, "train.py")
    assert done.returncode == 0, done.stderr
    said = [line for line in lines_of(done, "worker 1") if line.startswith("restart")]
    assert said == ["restart False data", "restart True data"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("nope.py",), "no file nope.py"),
        (("--backend-option=--partition=none", "train.py"), "invalid partition specified"),
        (("--backend-option=--time=1\n#SBATCH -n 9", "train.py"), "one line without control characters"),
        (("--backend-option=--time=soon", "train.py"), "Invalid --time specification"),
        (("-H", "vn1", "train.py"), "Slurm chooses the nodes"),
        (("--remote-python", "/nope", "train.py"), "/nope"),
        (("-n", "100", "train.py"), "found: 100 processors for 100 tasks; all has 16"),
        (
            ("-n", "8", "--backend-option=-c 3", "--backend-option=--partition=all", "train.py"),
            "found: 24 processors for 8 tasks; all has 16",
        ),
    ],
)
def test_what_can_not_be_started(slurm: Slurm, options: tuple[str, ...], found: str) -> None:
    write(slurm.shared, "train.py", "")
    done = slurm.run(*LAUNCH, "-n", 2, *options)
    assert done.returncode == 2
    assert found in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(slurm.shared.glob("runs/*"))


@pytest.mark.parametrize("who", ["scancel", "launcher", "kill"])
def test_a_job_that_is_ended_leaves_nothing(slurm: Slurm, who: str) -> None:
    write(slurm.shared, "train.py", "import time", "print('begun', flush=True)", "time.sleep(99)")
    process = slurm.popen(*LAUNCH, "-n", 3, "--backend-option=--nodes=3", "train.py")
    log = "runs/*/logs/worker-2.log"
    wait_until(lambda: [path for path in slurm.shared.glob(log) if path.read_text()])
    if who == "launcher":
        process.terminate()
    elif who == "scancel":
        slurm.run("scancel", "--name=train")
    else:
        slurm.run("scancel", "--name=train", "--full", "--signal=KILL")
    begun = time.monotonic()
    _, err = process.communicate(timeout=40)
    assert in_time(begun, 20)
    run = only_run(slurm.shared)
    assert process.returncode == (130 if who == "launcher" else 1), err
    if who != "launcher":
        assert re.search(r"job \d+ on node\d was ended by Slurm: ", err), err
    state = read_json(run / "status.json")["state"]
    assert state == "interrupted" or who == "kill"
    slurm.nothing_left(seconds=10)


def test_without_waiting_a_run_is_there_while_slurm_has_no_room(slurm: Slurm) -> None:
    write(slurm.shared, "train.py", "print('trained')")
    lines = (
        "import sys, tfmuster",
        "options = {'on': tfmuster.Slurm('--nodes=2'), 'wait': False, 'workers': 2}",
        "run = tfmuster.launch(sys.argv[1], **options)",
        "print(run.path, run.status()['state'])",
    )
    write(slurm.shared, "session.py", *lines)
    full = slurm.popen("srun", "--exclusive", "-N", 4, "sleep", 99)
    wait_until(lambda: slurm.jobs() == ["sleep RUNNING"])
    path, _, state = slurm.run(sys.executable, "session.py", "train.py").stdout.strip().rpartition(" ")
    assert state == "starting"
    assert slurm.jobs() == ["train PENDING", "sleep RUNNING"]
    slurm.run("scancel", "--name=sleep")
    full.communicate(timeout=20)
    run = Run(path)
    assert run.wait(timeout=30)["state"] == "done"
    assert run.logs() == {"worker 0": "trained\n", "worker 1": "trained\n"}


@pytest.mark.parametrize("room", [True, False])
def test_a_run_is_stopped_from_another_machine_than_its_own(slurm: Slurm, room: bool) -> None:
    write(slurm.shared, "train.py", "import time", "print('begun', flush=True)", "time.sleep(99)")
    options = "workers=2, on=tfmuster.Slurm('--nodes=2'), wait=False"
    lines = ("import tfmuster", f"run = tfmuster.launch('train.py', {options})", "print(run.path)")
    write(slurm.shared, "session.py", *lines)
    full = None
    if not room:
        full = slurm.popen("srun", "--exclusive", "-N", 4, "sleep", 99)
        wait_until(lambda: slurm.jobs() == ["sleep RUNNING"])
    run = Run(slurm.run(sys.executable, "session.py").stdout.strip())
    if room:
        wait_until(lambda: "begun\n" in run.logs().values())
    stopped = slurm.run(*TFMUSTER, "runs", "stop")
    assert stopped.stdout == f"{run.name}: interrupted\n", stopped.stderr
    # The job is over before Slurm has released its nodes.
    wait_until(lambda: slurm.jobs() == ([] if room else ["sleep RUNNING"]))
    if full is not None:
        full.terminate()
        full.communicate(timeout=20)


@pytest.mark.usefixtures("tfmuster_in_r")
def test_an_r_function_runs_in_slurm_and_its_values_come_back(slurm: Slurm) -> None:
    code = (
        "library(tfmuster); offset <- 40; "
        "f <- function(x) list(unname(Sys.info()['nodename']), offset + x); "
        "options <- list(workers = 2, on = on_slurm('--nodes=2'), quiet = TRUE); "
        "cat('got', unlist(do.call(launch, c(list(f, 2), options))), ''); "
        "e <- tryCatch(do.call(launch, c(list(function() stop('no luck')), options)), error = identity); "
        "cat('caught', conditionMessage(e$parent))"
    )
    done = slurm.run("Rscript", "-e", code, limit=90)
    assert done.stdout.endswith("got node1 42 node2 42 caught no luck"), done.stderr


def test_without_waiting_a_job_that_can_not_start_says_so(slurm: Slurm) -> None:
    line = "run = tfmuster.launch('nope.py', on=tfmuster.Slurm(), wait=False)"
    write(slurm.shared, "session.py", "import tfmuster", line, "print(run.path)")
    run = Run(slurm.run(sys.executable, "session.py").stdout.strip())
    assert run.wait(timeout=30)["state"] == "failed"
    with pytest.raises(WorkerError, match="could not start the workers: The host can't take part"):
        run.check()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The weights and the history of an undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = tfmuster("launch", "-n", 2, "--seed", 5, PREEMPTED, ".", "steps", 10**6, cwd=folder)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "final-0.npz") as file:
        return dict(file)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_job_is_saved_and_resumed_by_its_name(slurm: Slurm, trained: dict[str, np.ndarray]) -> None:
    """With the options for Slurm that it was submitted with."""
    launcher = slurm.popen(
        *(*LAUNCH, "-n", 2, "--seed", 5, "--run-dir", "run", "--backend-option=--comment=kept"),
        *(PREEMPTED, ".", "steps", 4, 2),
    )
    run = Run(slurm.shared / "run")
    wait_until(lambda: (slurm.shared / "reached-1").exists() or launcher.poll() is not None, 60)
    assert launcher.poll() is None, launcher.communicate()
    (number,) = slurm.output("squeue", "-h", "-o", "%i").split()
    stopped = slurm.run(*TFMUSTER, "runs", "stop", "--save", "run", "--runs", ".")
    assert stopped.returncode == 0, stopped.stderr
    said, errors = launcher.communicate(timeout=60)
    status = run.status()
    assert (status["state"], status.get("signal")) == ("preempted", 15), (said, errors)
    again = slurm.run(*TFMUSTER, "runs", "resume", "run", "--runs", ".", "--detach")
    assert again.returncode == 0, again.stderr
    wait_until(lambda: slurm.output("squeue", "-h", "-o", "%i %k").split() not in ([], [number, "kept"]), 60)
    (second, comment) = slurm.output("squeue", "-h", "-o", "%i %k").split()
    assert (second != number, comment) == (True, "kept")
    (slurm.shared / "fast").touch()
    wait_until(lambda: run.status()["state"] == "done", 120)
    assert run.info()["resumed"] == 1
    with np.load(slurm.shared / "final-0.npz") as file:
        for name, value in trained.items():
            np.testing.assert_array_equal(file[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", ["time limit", "scontrol requeue"])
def test_a_job_that_slurm_requeues_resumes(slurm: Slurm, trained: dict[str, np.ndarray], how: str) -> None:
    # Slurm signals up to a minute earlier than it is asked to.
    options = ("--time=2", "--signal=B:USR1@30") if how == "time limit" else ()
    launcher = slurm.popen(
        *(*LAUNCH, "--requeue", "-n", 2, "--seed", 5, "--run-dir", "run"),
        *(f"--backend-option={option}" for option in options),
        # The training would take longer than the time limit.
        *(PREEMPTED, ".", "steps", 4, 4),
    )
    run = Run(slurm.shared / "run")
    wait_until(lambda: (slurm.shared / "reached-1").exists() or launcher.poll() is not None, 60)
    assert launcher.poll() is None, launcher.communicate()
    (number,) = slurm.output("squeue", "-h", "-o", "%i").split()
    if how == "scontrol requeue":
        time.sleep(2)
        assert slurm.run("scontrol", "requeue", number).returncode == 0
    wait_until(lambda: run.status()["state"] in ("preempted", "interrupted", "lost"), 150)
    (slurm.shared / "fast").touch()
    if how == "time limit":
        assert (run.status()["state"], run.status()["signal"]) == ("preempted", 10)
    else:
        # Slurm lets a job that it starts again wait for two minutes.
        wait_until(lambda: slurm.output("squeue", "-h", "-o", "%t", "-j", number).strip() == "PD", 60)
        assert slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now").returncode == 0
    said, errors = launcher.communicate(timeout=200)
    assert launcher.returncode == 0, (said, errors)
    assert (run.status()["state"], run.info()["resumed"]) == ("done", 1)
    assert "resumes after step" in said
    with np.load(slurm.shared / "final-0.npz") as file:
        for name, value in trained.items():
            np.testing.assert_array_equal(file[name], value, err_msg=name)
