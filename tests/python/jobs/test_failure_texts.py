"""What the user reads when a launch fails, whole, as it stands in the terminal. Over ssh: test_ssh_faults."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from support.launching import nothing_left, only_run, tfmuster, write
from support.r import NEEDS_R

TASK = "import json, os, signal, sys, time; index = json.loads(os.environ['TF_CONFIG'])['task']['index']"


def text_of(tmp_path: Path, *arguments: object, code: int = 1) -> str:
    """What a launch that fails writes on standard error, with HERE, HOST and PORT for what differs."""
    done = tfmuster("launch", *arguments, cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    nothing_left(tmp_path)
    assert done.returncode == code, done.stderr
    # A second run of one second has a number.
    text = re.sub(r"runs/[0-9TZ]+-(\w+)(-\d+)?", r"runs/\1", done.stderr.replace(str(tmp_path), "HERE"))
    text = text.replace(f"on {socket.gethostname()}", "on HOST")
    return re.sub(r"(127\.0\.0\.1:|port )\d+", r"\1PORT", text)


def of_workers(tmp_path: Path, name: str, *lines: str) -> str:
    """The same of a script on two workers, without the line that says that they were started."""
    write(tmp_path, name, *lines)
    text = text_of(tmp_path, "-n", 2, name)
    first, rest = text.split("\n", 1)
    assert first == "tfmuster: 2 workers on this machine; run directory runs/train"
    return rest


def test_an_exception(tmp_path: Path) -> None:
    lines = [TASK, "print('step 1')", "def read(): raise ValueError('bad digit')", "if index: read()"]
    assert of_workers(tmp_path, "train.py", *lines, "time.sleep(60)") == (
        """
worker 1 on HOST failed with exit code 1: ValueError: bad digit

Traceback (most recent call last):
  File "HERE/train.py", line 4, in <module>
    if index: read()
              ^^^^^^
  File "HERE/train.py", line 3, in read
    def read(): raise ValueError('bad digit')
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: bad digit

Full output: HERE/runs/train/logs/worker-1.log
"""
    )


def test_a_folder_that_another_worker_has_just_made(tmp_path: Path) -> None:
    """But not one that was there before the job, nor a file that nobody has made."""
    advice = "in a block `with tfmuster.chief_first():`"
    assert advice in of_workers(
        tmp_path, "train.py", TASK, "time.sleep(index)", "os.mkdir('made')", "time.sleep(9)"
    )
    assert advice in of_workers(
        tmp_path, "train.py", TASK, "time.sleep(index)", "os.rmdir('made')", "time.sleep(9)"
    )
    write(tmp_path, "data.txt", "")
    for line in ("os.mkdir('data.txt')", "open('no/data.txt')"):
        assert "chief_first" not in of_workers(tmp_path, "train.py", TASK, line)


def test_a_failure_that_the_others_hear_of_is_shown_once(tmp_path: Path) -> None:
    lines = [TASK, "import tfmuster", "from tfmuster.rendezvous.task.join import join_cluster"]
    lines += ["join_cluster(tfmuster.current_task())", "if index: raise ValueError('bad digit')"]
    script = write(tmp_path, "train.py", *lines, "time.sleep(60)")
    done = tfmuster("launch", "-n", 2, script, cwd=tmp_path)
    assert done.returncode == 1 and "bad digit" not in done.stdout, done.stdout
    assert done.stderr.count("failed with exit code 1: ValueError: bad digit\n") == 1
    log = (only_run(tmp_path) / "logs" / "worker-0.log").read_text()
    assert re.search(r"^tfmuster: worker 1 \(host .+, pid \d+\) failed: ValueError: bad digit$", log, re.M)


def test_a_mistake_in_the_script(tmp_path: Path) -> None:
    assert of_workers(tmp_path, "train.py", "x = (").replace("worker 1", "worker 0").replace("-1", "-0") == (
        """
worker 0 on HOST failed with exit code 1: SyntaxError: '(' was never closed (train.py, line 1)

  File "HERE/train.py", line 1
    x = (
        ^
SyntaxError: '(' was never closed

Full output: HERE/runs/train/logs/worker-0.log
"""
    )


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("sys.exit(3)", "failed with exit code 3.\n"),
        ("sys.exit('no digits')", "failed with exit code 1.\n\nIts last lines:\n  no digits\n"),
        ("os.kill(os.getpid(), 11)", "was ended by SIGSEGV.\n"),
    ],
)
def test_an_end(tmp_path: Path, ending: str, text: str) -> None:
    assert of_workers(tmp_path, "train.py", TASK, f"if index: {ending}", "time.sleep(60)") == (
        f"\nworker 1 on HOST {text}\nFull output: HERE/runs/train/logs/worker-1.log\n"
    )


def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    lines = [TASK, "if index: os.kill(os.getpid(), 9)", "time.sleep(60)"]
    assert of_workers(tmp_path, "train.py", *lines) == (
        """
worker 1 on HOST was ended by SIGKILL.

Full output: HERE/runs/train/logs/worker-1.log
To do: If nobody killed it, the machine ran out of memory: see `dmesg`. Use fewer workers or smaller batches.
"""
    )


@NEEDS_R
@pytest.mark.parametrize(
    ("line", "headline", "shown"),
    [
        ("stop('bad digit')", "Error in read() : bad digit", '2. base::stop("bad digit")'),
        (
            "rlang::abort(c('No digits.', i = 'Look for some.'), call = NULL, trace = FALSE)",
            "Error: No digits.",
            "2. rlang::abort(...)",
        ),
    ],
)
def test_an_r_condition(tmp_path: Path, line: str, headline: str, shown: str) -> None:
    lines = ["options(rlang_backtrace_on_error = 'none')", "cat('step 1\\n')", f"read <- function() {line}"]
    body = "ℹ Look for some.\n" if "rlang" in line else ""
    last = 'if (grepl("index\\":1", gsub(" ", "", Sys.getenv("TF_CONFIG")))) read() else Sys.sleep(60)'
    assert of_workers(tmp_path, "train.R", *lines, last) == (
        f"\nworker 1 on HOST failed with exit code 1: {headline}\n\n"
        f"Its last lines:\n  step 1\n\n{body}Backtrace:\n 1. global read()\n {shown}\n\n"
        "Full output: HERE/runs/train/logs/worker-1.log\n"
    )


def test_a_worker_that_does_not_come(tmp_path: Path) -> None:
    lines = [
        "import tfmuster",
        "from tfmuster.rendezvous.task.join import join_cluster",
        "time.sleep(60 * index)",
    ]
    write(tmp_path, "train.py", TASK, *lines, "join_cluster(tfmuster.current_task())")
    assert text_of(tmp_path, "--start-timeout", 2, "train.py", code=3) == (
        """\
tfmuster: 2 workers on this machine; run directory runs/train

The 2 tasks of the cluster did not come together within 2 s.
  found: worker 1 (127.0.0.1:PORT) is missing
  to do: start worker 1, or see in its own output why it did not arrive: a wrong index, a name that does not \
resolve, a firewall before port PORT of 127.0.0.1

Full output: HERE/runs/train/logs/worker-0.log
"""
    )


def test_an_error_on_purpose(tmp_path: Path) -> None:
    train = ["tfmuster", "train", "mnist", "--dataset", "nothing.npz"]
    assert text_of(tmp_path, "-n", 1, "--", *train) == (
        """\
tfmuster: 1 worker on this machine; run directory runs/train-mnist

worker 0 on HOST failed with exit code 2: The digits must be in an .npz file or a folder of IDX files.
  found: nothing at nothing.npz
  to do: pass the path of mnist.npz or of a folder with the four IDX files, or set TFMUSTER_MNIST to it

Full output: HERE/runs/train-mnist/logs/worker-0.log
"""
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["gone.py"],
            """\
Error: The script to run must exist.
  found: no file gone.py in HERE
  to do: Check the path; it is relative to the working directory.
""",
        ),
        (
            ["--", "gone"],
            """\
Error: The program to run must be on PATH.
  found: no gone
  to do: Give the path of a .py or .R script, or of a command.
""",
        ),
        (
            ["notes.txt"],
            """\
Error: The program to run must be on PATH.
  found: notes.txt is neither a .py or .R script nor a command
  to do: Give the path of a .py or .R script, or of a command.
""",
        ),
        (
            ["folder"],
            """\
Error: The program to run must be on PATH.
  found: folder is a folder
  to do: Give the path of a .py or .R script, or of a command.
""",
        ),
        (
            ["train.py", "a\udcffb"],
            """\
Error: Names, arguments and variables of a job must be UTF-8 text without null bytes.
  found: 'a\\udcffb'
  to do: Rename the file, or leave the character out.
""",
        ),
        (
            ["-H", "a", "--hostfile", "b", "train.py"],
            """\
Error: Give the hosts by -H or by --hostfile.
  found: both
  to do: Leave one out.
""",
        ),
        (
            ["-H", "a,-b", "train.py"],
            """\
Error: The hosts can't be used.
  found: -H, entry 2: '-b' is not a host name
  to do: Write them as node1:2,node2:2 (name:slots), or one per line in --hostfile.
""",
        ),
        (
            ["-H", "node1", "--file", "gone.npz", "train.py"],
            """\
Error: --file sends files and folders.
  found: gone.npz: No such file or directory
  to do: Check the path.
""",
        ),
        (
            ["--gpus-per-worker", "2", "train.py"],
            """\
Error: Every worker must have GPUs of its own.
  found: 0 GPUs for 2 workers with 2 each
  to do: Give each fewer GPUs; `nvidia-smi -L` lists them, CUDA_VISIBLE_DEVICES restricts them.
""",
        ),
        (
            ["--env", "=5", "train.py"],
            """\
Usage: tfmuster launch [OPTIONS] SCRIPT|COMMAND [ARGUMENT]...
Try 'tfmuster launch --help' for help.

Error: --env takes NAME=VALUE, or the name of a variable that is set here.
  found: =5
""",
        ),
        (
            ["--env", "NO_SUCH_VARIABLE", "train.py"],
            """\
Usage: tfmuster launch [OPTIONS] SCRIPT|COMMAND [ARGUMENT]...
Try 'tfmuster launch --help' for help.

Error: --env takes NAME=VALUE, or the name of a variable that is set here.
  found: NO_SUCH_VARIABLE
""",
        ),
        (
            ["--run-dir", "old", "train.py"],
            """\
Error: The run directory must be new.
  found: old already holds logs
  to do: Choose another place with --run-dir: a run keeps its own files under these names.
""",
        ),
    ],
)
def test_what_is_not_started(tmp_path: Path, arguments: list[str], text: str) -> None:
    write(tmp_path, "train.py", "")
    write(tmp_path, "notes.txt", "")
    (tmp_path / "folder").mkdir()
    (tmp_path / "old/logs").mkdir(parents=True)
    assert text_of(tmp_path, *arguments, code=2) == text
