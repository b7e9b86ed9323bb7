"""Sun Grid Engine itself, sge_qmaster and four sge_execd: jobs are submitted, train, fail, and are ended."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from support.hosts import lines_of
from support.launching import TFMUSTER, only_run, read_json, wait_until, write
from support.paths import PROGRAMS
from support.sge_cluster import Sge
from tfmuster.errors import WorkerError
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.timeout(200)
LAUNCH = (*TFMUSTER, "launch", "--backend", "sge")
SPREAD, FILL = "--backend-option=-pe spread", "--backend-option=-pe fill"
TRAIN = (
    "tfmuster",
    "train",
    "mnist",
    "--optimizer",
    "adam",
    "--steps-per-epoch",
    0,
    "--epochs",
    1,
    "--save",
    "model.keras",
)
#: Tells where it runs, and what tfmuster makes of it.
TELL = (
    "import json, os, sys",
    "told = json.loads(os.environ['TF_CONFIG'])",
    "rank = told['task']['index']",
    "line = [os.uname().nodename, rank, told['cluster']['worker'], os.environ.get('CUDA_VISIBLE_DEVICES')]",
    "sys.stdout.write(json.dumps(line) + '\\n')",
    "sys.stdout.flush()",
)
#: A job of a user's own, that starts a task on each slot.
EACH_SLOT = (
    "#$ -S /bin/sh -cwd -V -j y -o said.txt",
    "while read -r host slots rest; do",
    "  for _ in $(seq $slots); do",
    '    qrsh -inherit -nostdin -V $host "$@" &',
    "  done",
    "done <$PE_HOSTFILE",
    "wait",
)
WAITS = ("import time", "print('begun', flush=True)", "time.sleep(99)")


def told(text: str) -> list[list[object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("[")]


def places(done: object, count: int) -> list[list[object]]:
    return [json.loads(lines_of(done, f"worker {index}")[0]) for index in range(count)]  # type: ignore[arg-type]


def test_a_job_is_submitted_shown_and_kept(sge: Sge) -> None:
    write(sge.shared, "train.py", *TELL, "print('argument', sys.argv[1:], os.environ['COLOUR'])")
    program = ("train.py", "a b", "$(touch pwned)", "it's")
    done = sge.run(*LAUNCH, "-n", 4, SPREAD, "--name", '1 "%j":,', *program, COLOUR="green")
    assert done.returncode == 0, done.stderr
    tasks = places(done, 4)
    assert [task[1] for task in tasks] == [0, 1, 2, 3]
    assert sorted(task[0] for task in tasks) == ["node1", "node2", "node3", "node4"]  # type: ignore[type-var]
    for index in range(4):
        assert lines_of(done, f"worker {index}")[1] == """argument ['a b', '$(touch pwned)', "it's"] green"""
    assert not list(sge.shared.rglob("pwned"))
    run = only_run(sge.shared)
    assert read_json(run / "status.json")["state"] == "done"
    assert read_json(run / "run.json")["sge_job"].isdigit()
    assert (run / "logs" / "sge.log").exists()


def test_workers_train_on_real_digits_on_two_hosts(sge: Sge) -> None:
    digits = os.environ.get("TFMUSTER_MNIST", "synthetic")
    done = sge.run(*LAUNCH, "-n", 2, SPREAD, "--", *TRAIN, "--dataset", digits, limit=170)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "global batch 128" in done.stdout
    assert (sge.shared / "model.keras").stat().st_size > 100_000
    tasks = read_json(only_run(sge.shared) / "status.json")["tasks"]
    assert len({task["host"] for task in tasks.values()}) == 2
    if digits != "synthetic":
        accuracy = re.search(r"test accuracy ([0-9.]+)", done.stdout)
        assert accuracy is not None, done.stdout
        assert float(accuracy[1]) > 0.85, done.stdout


def test_a_dry_run_prints_what_would_be_submitted(sge: Sge) -> None:
    write(sge.shared, "train.py", "print('trained')")
    done = sge.run(*LAUNCH, "--dry-run", "-n", 2, FILL, "train.py")
    assert done.returncode == 0, done.stderr
    assert not list(sge.shared.glob("runs"))
    assert "#$ -pe fill 2\n" in done.stdout
    # What is printed is a batch script.
    script = write(sge.shared, "job.sh", done.stdout)
    submitted = sge.run("qsub", "-sync", "y", script)
    assert submitted.returncode == 0, submitted.stderr
    run = only_run(sge.shared)
    assert (run / "logs" / "worker-1.log").read_text() == "trained\n"


def test_the_parallel_environment_is_named_unless_there_is_one_only(sge: Sge) -> None:
    write(sge.shared, "train.py", "print('trained')")
    several = sge.run(*LAUNCH, "-n", 2, "train.py")
    assert several.returncode == 2
    assert "found: there are fill, loose, spread, two\n" in several.stderr
    assert "to do: Name one: --backend-option='-pe NAME'" in several.stderr
    with sge.environments("fill"):
        assert "#$ -pe fill 2\n" in sge.run(*LAUNCH, "--dry-run", "-n", 2, "train.py").stdout
    with sge.environments():
        none = sge.run(*LAUNCH, "-n", 2, "train.py")
        assert none.returncode == 2
        assert "there is no parallel environment" in none.stderr or "no parallel environment" in none.stderr
        # One task needs none.
        alone = sge.run(*LAUNCH, "-n", 1, "train.py")
    assert alone.returncode == 0, alone.stderr
    assert lines_of(alone, "worker 0") == ["trained"]


def test_an_environment_that_gives_no_control_is_named(sge: Sge) -> None:
    write(sge.shared, "train.py", "print('trained')")
    done = sge.run(*LAUNCH, "-n", 2, "--backend-option=-pe loose", "train.py")
    assert done.returncode == 2
    assert "must let `qrsh -inherit` start a task on each slot" in done.stderr
    assert "control_slaves TRUE" in done.stderr


def test_inside_a_job_the_workers_are_started_on_its_slots(sge: Sge) -> None:
    write(sge.shared, "train.py", *TELL)
    job = write(sge.shared, "job.sh", "#$ -S /bin/sh -cwd -V -j y -o said.txt", 'exec "$@"')
    done = sge.run("qsub", "-sync", "y", "-pe", "fill", 6, job, *LAUNCH, "--all-output", "train.py")
    said = (sge.shared / "said.txt").read_text()
    assert done.returncode == 0, said
    assert "6 tasks on " in said
    tasks = sorted(
        told("\n".join(re.findall(r"^worker \d +\| (.*)$", said, re.MULTILINE))), key=lambda t: t[1]
    )  # type: ignore[arg-type, return-value]
    # Four slots on the first host, and two on the second.
    hosts = [task[0] for task in tasks]
    assert hosts[:4] == [hosts[0]] * 4
    assert hosts[4:] == [hosts[4]] * 2 != [hosts[0]] * 2
    (sge.shared / "said.txt").unlink()
    few = sge.run("qsub", "-sync", "y", "-pe", "spread", 2, job, *LAUNCH, "-n", 9, "train.py")
    assert few.returncode == 2
    assert "found: 9 tasks, and 2 slots on node" in (sge.shared / "said.txt").read_text()


def test_every_task_of_a_users_own_job_finds_its_place(sge: Sge) -> None:
    write(sge.shared, "tell.py", *TELL)
    job = write(sge.shared, "job.sh", *EACH_SLOT)
    worker = (*TFMUSTER, "worker", "tell.py")
    gpus = {"CUDA_VISIBLE_DEVICES": "0,1"}
    done = sge.run("qsub", "-sync", "y", "-pe", "two", 4, job, *worker, **gpus)
    said = (sge.shared / "said.txt").read_text()
    assert done.returncode == 0, said
    tasks = sorted(told(said), key=lambda task: task[1])  # type: ignore[arg-type, return-value]
    assert [task[1] for task in tasks] == [0, 1, 2, 3], said
    (addresses,) = {tuple(task[2]) for task in tasks}  # type: ignore[arg-type]
    assert [address.partition(":")[0] for address in addresses] == [task[0] for task in tasks]
    assert len(set(addresses)) == 4
    assert [task[3] for task in tasks] == ["0", "1", "0", "1"]


def test_training_by_a_users_own_job(sge: Sge) -> None:
    job = write(sge.shared, "job.sh", *EACH_SLOT)
    worker = (*TFMUSTER, "worker", "--", *TRAIN, "--dataset", "synthetic")
    done = sge.run("qsub", "-sync", "y", "-pe", "spread", 2, job, *worker, limit=170)
    assert done.returncode == 0
    assert "global batch 128" in (sge.shared / "said.txt").read_text()
    assert (sge.shared / "model.keras").stat().st_size > 100_000


def test_more_tasks_than_slots_are_refused(sge: Sge) -> None:
    write(sge.shared, "tell.py", *TELL)
    options, host = "#$ -S /bin/sh -cwd -V -j y -o said.txt", "host=$(cut -d' ' -f1 $PE_HOSTFILE)"
    start = 'qrsh -inherit -nostdin -V $host "$@"'
    worker = ("-pe", "two", 2, sge.shared / "job.sh", *TFMUSTER, "worker", "tell.py")
    # Not the list of this job, which has two slots there.
    other = "sed 's/ 2 / 1 /' $PE_HOSTFILE >hosts.txt; export PE_HOSTFILE=$PWD/hosts.txt"
    write(sge.shared, "job.sh", options, host, other, start, start)
    sge.run("qsub", "-sync", "y", *worker)
    said = (sge.shared / "said.txt").read_text()
    assert len(told(said)) == 1, said
    assert re.search(r"found: task 2 on node\d, which has 1 slots", said)
    (sge.shared / "said.txt").unlink()
    # As where the list is on the disk of another host.
    write(sge.shared, "job.sh", options, host, "export PE_HOSTFILE=$PWD/nope.txt", start)
    sge.run("qsub", "-sync", "y", *worker)
    said = (sge.shared / "said.txt").read_text()
    assert "nope.txt: No such file or directory" in said
    assert "Copy it to a directory that all hosts have" in said


def test_a_failure_is_named_and_nothing_is_left(sge: Sge) -> None:
    write(sge.shared, "train.py", *TELL, "import time", "if rank == 1: raise ValueError('no such column')")
    with (sge.shared / "train.py").open("a") as script:
        script.write("time.sleep(99)\n")
    failed = sge.run(*LAUNCH, "-n", 2, SPREAD, "train.py")
    assert failed.returncode == 1
    assert re.search(r"worker 1 on node\d failed with exit code 1: ValueError: no such column", failed.stderr)


def test_a_submitted_job_starts_again_and_gets_the_files_that_are_sent(sge: Sge) -> None:
    write(sge.shared, "data.txt", "data")
    lines = (
        "again = os.environ['TFMUSTER_RESTART'] == '1'",
        "print('restart', again, open('data.txt').read().strip(), flush=True)",
        "sys.exit(9 if rank == 1 and not again else 0)",
    )
    write(sge.shared, "train.py", *TELL, *lines)
    done = sge.run(*LAUNCH, "-n", 2, "--max-restarts", 1, "--file", "data.txt", SPREAD, "train.py")
    assert done.returncode == 0, done.stderr
    said = [line for line in lines_of(done, "worker 1") if line.startswith("restart")]
    assert said == ["restart False data", "restart True data"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((SPREAD, "nope.py"), "no file nope.py"),
        (("--backend-option=-pe nosuch", "train.py"), 'parallel environment "nosuch" does not exist'),
        (("--backend-option=-pe spread 9", "train.py"), "found: -pe spread 9, for 2 tasks"),
        ((SPREAD, "--backend-option=-pe fill", "train.py"), "found: -pe spread and -pe fill, for 2 tasks"),
        ((SPREAD, "--backend-option=-l h_rt=1\n#$ -t 9", "train.py"), "one line without control characters"),
        (("--backend-option=-pe spread -l h_rt=soon", "train.py"), '"h_rt" is not a time value'),
        (("-H", "node1", "train.py"), "Grid Engine chooses the nodes"),
        ((SPREAD, "--remote-python", "/nope", "train.py"), "/nope"),
    ],
)
def test_what_can_not_be_started(sge: Sge, options: tuple[str, ...], found: str) -> None:
    write(sge.shared, "train.py", "")
    done = sge.run(*LAUNCH, "-n", 2, *options)
    assert done.returncode == 2
    assert found in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(sge.shared.glob("runs/*"))


def test_why_a_job_waits_is_shown(sge: Sge) -> None:
    write(sge.shared, "train.py", "")
    process = sge.popen(*LAUNCH, "-n", 99, SPREAD, "train.py")
    assert process.stderr is not None
    first, second = process.stderr.readline(), process.stderr.readline()
    assert re.fullmatch(r"tfmuster: job \d+ of Grid Engine; run directory runs/.*\n", first)
    while "waits: cannot run" not in second:
        assert "waits" in second, second
        second = process.stderr.readline()
    assert 'waits: cannot run in PE "spread" because it only offers 16 slots' in second
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert sge.jobs() == []
    assert not list(sge.shared.glob("runs/*"))


def test_a_job_that_grid_engine_can_not_start_is_removed_with_its_reason(sge: Sge) -> None:
    gone = sge.shared / "gone"
    gone.mkdir()
    write(gone, "train.py", "")
    full = sge.run("qsub", "-terse", "-b", "y", "-S", "/bin/sh", "-pe", "fill", 16, "-N", "full", "sleep", 99)
    assert full.returncode == 0, full.stderr
    wait_until(lambda: sge.jobs() == ["full r"])
    process = sge.popen("sh", "-c", 'cd gone && exec "$@"', "sh", *LAUNCH, "-n", 2, SPREAD, "train.py")
    # Accepted, and known to the launcher.
    wait_until(lambda: list(gone.glob("runs/*/stop.json")))
    gone.rename(sge.shared / "moved")
    sge.run("qdel", full.stdout.strip())
    _, said = process.communicate(timeout=40)
    assert process.returncode == 2, said
    assert "can't chdir to" in said
    assert sge.jobs() == []


@pytest.mark.parametrize("who", ["qdel", "launcher", "kill"])
def test_a_job_that_is_ended_leaves_nothing(sge: Sge, who: str) -> None:
    write(sge.shared, "train.py", *WAITS)
    process = sge.popen(*LAUNCH, "-n", 3, SPREAD, "train.py")
    last = "runs/*/logs/worker-2.log"
    wait_until(lambda: [path for path in sge.shared.glob(last) if path.read_text()], 30)
    # Beside it is what the batch job itself writes.
    (run,) = (path.parent for path in sge.shared.glob("runs/*/run.json"))
    if who == "launcher":
        process.terminate()
    elif who == "qdel":
        sge.run("qdel", read_json(run / "run.json")["sge_job"])
    else:
        sge.kill_launcher(read_json(run / "run.json")["host"])
    _, err = process.communicate(timeout=40)
    assert process.returncode == (130 if who == "launcher" else 1), err
    if who != "launcher":
        assert re.search(r"job \d+ on node\d was ended by Grid Engine: ", err), err
        # How the accounting says it.
        assert ("exit status 130" if who == "qdel" else "exit status 137") in err
    assert read_json(run / "status.json")["state"] == ("failed" if who == "kill" else "interrupted")
    sge.nothing_left(seconds=10)


@pytest.mark.parametrize("room", [True, False])
def test_a_run_is_stopped_from_another_machine_than_its_own(sge: Sge, room: bool) -> None:
    write(sge.shared, "train.py", *WAITS)
    options = "workers=2, on=tfmuster.Sge('-pe spread'), wait=False"
    lines = ("import tfmuster", f"run = tfmuster.launch('train.py', {options})", "print(run.path)")
    write(sge.shared, "session.py", *lines)
    if not room:
        full = ("-b", "y", "-S", "/bin/sh", "-pe", "fill", 16, "-N", "full", "sleep", 99)
        assert sge.run("qsub", *full).returncode == 0
        wait_until(lambda: sge.jobs() == ["full r"])
    run = Run(sge.run(sys.executable, "session.py").stdout.strip())
    if room:
        wait_until(lambda: "begun\n" in run.logs().values(), 30)
    assert run.status()["state"] == ("running" if room else "starting")
    stopped = sge.run(*TFMUSTER, "runs", "stop")
    assert stopped.stdout == f"{run.name}: interrupted\n", stopped.stderr
    wait_until(lambda: sge.jobs() == ([] if room else ["full r"]))


def test_a_run_whose_session_has_ended_waits_and_runs(sge: Sge) -> None:
    write(sge.shared, "train.py", "print('trained')")
    options = "workers=2, on=tfmuster.Sge('-pe spread'), wait=False"
    lines = ("import tfmuster", f"run = tfmuster.launch('train.py', {options})", "print(run.path)")
    write(sge.shared, "session.py", *lines)
    run = Run(sge.run(sys.executable, "session.py").stdout.strip())
    assert run.wait(timeout=30)["state"] == "done"
    assert run.logs() == {"worker 0": "trained\n", "worker 1": "trained\n"}
    write(sge.shared, "session.py", *[line.replace("train.py", "nope.py") for line in lines])
    run = Run(sge.run(sys.executable, "session.py").stdout.strip())
    assert run.wait(timeout=30)["state"] == "failed"
    with pytest.raises(WorkerError, match="could not start the workers: None of the 2 hosts can take part"):
        run.check()


def test_the_end_of_a_submitted_job_is_known_without_the_master(sge: Sge) -> None:
    lines = ("import pathlib, time", "print('runs', flush=True)", "while not pathlib.Path('go').exists():")
    write(sge.shared, "train.py", *lines, "    time.sleep(0.1)")
    launched = sge.popen(*LAUNCH, "-n", 1, FILL, "train.py")
    assert launched.stdout is not None
    assert "runs" in launched.stdout.readline()
    with sge.without_master():
        write(sge.shared, "go", "")
        _, said = launched.communicate(timeout=100)
    assert launched.returncode == 0, said


def test_the_doctor_says_whether_it_answers(sge: Sge, tmp_path: Path) -> None:
    doctor = (*TFMUSTER, "doctor", "--no-devices")
    done = sge.run(*doctor)
    assert re.search(
        r"sge: +yes: SGE 8[.0-9]+, parallel environments: fill, loose, spread, two\n", done.stdout
    )
    with sge.without_master():
        silent = sge.run(*doctor)
    assert re.search(r"sge: +no: qsub is here, but no qmaster answers", silent.stdout), silent.stdout
    assert shutil.which("qsub")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_training_is_saved_at_its_time_limit_and_resumes_as_another_job(sge: Sge) -> None:
    """At the soft limit Grid Engine only warns, and at the hard one it kills."""
    job = ("--seed", 5, "--run-dir", "run", SPREAD, "--backend-option=-l s_rt=0:1:0,h_rt=0:3:0")
    launcher = sge.popen(*LAUNCH, "-n", 2, *job, PROGRAMS / "preempted.py", ".", "steps", 4, 3)
    run = Run(sge.shared / "run")
    launcher.communicate(timeout=200)
    assert (run.status()["state"], launcher.returncode) == ("preempted", 143)
    (sge.shared / "fast").touch()
    for _ in range(10):  # a busy machine can need more than one limit's time
        done = sge.run(*TFMUSTER, "runs", "resume", run.path, limit=100)
        if run.status()["state"] != "preempted":
            break
    assert done.returncode == 0, done.stderr
    assert "resumes after step" in done.stdout
    assert run.status()["state"] == "done" and (sge.shared / "final-1.npz").exists()
