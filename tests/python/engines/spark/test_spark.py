"""Jobs on Spark: refusals without it, then a standalone cluster, local-cluster and local."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clock import in_time
from support.functions import Digits, placed
from support.launching import nothing_left, tfmuster, wait_until, write
from support.spark_cluster import SparkCluster, few_programs, java_home, may_rename_machines, why_not
from tfmuster import launch
from tfmuster.errors import LaunchError, WorkerError
from tfmuster.options.places import Spark

REASON = why_not()
on_spark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
pytestmark = pytest.mark.timeout(300)
#: What keeps the JVMs of the tests small, and on this machine.
SMALL = ["spark.executor.memory=512m", "spark.driver.memory=512m", "spark.driver.host=127.0.0.1"]
LOCAL_CLUSTER = "local-cluster[3,1,512]"


def options(*more: str) -> list[str]:
    return [word for option in (*SMALL, *more) for word in ("--backend-option", option)]


class TestRefusedByTheCommandLine:
    """No job begins."""

    @pytest.mark.skipif(REASON is not None and "pyspark" in REASON, reason=str(REASON))
    def test_without_java(self, tmp_path: Path) -> None:
        write(tmp_path, "t.py", "")
        done = tfmuster("launch", "--backend", "spark", "t.py", cwd=tmp_path, PATH="/nowhere", JAVA_HOME="")
        assert done.returncode == 2
        assert done.stderr.startswith("Error: Spark needs Java, 17 or later.\n  found: no java on PATH")

    @on_spark
    def test_a_master_that_is_not_there(self, tmp_path: Path) -> None:
        write(tmp_path, "t.py", "")
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            master = f"spark://127.0.0.1:{bound.getsockname()[1]}"
            begun = time.monotonic()
            done = tfmuster("launch", "--backend", "spark", "--master", master, "t.py", cwd=tmp_path)
        assert in_time(begun, 15)
        assert done.stderr.startswith(
            "Error: The master of Spark must be reachable.\n"
            f"  found: {master.removeprefix('spark://')}: Connection refused"
        )


#: A Python that takes itself for another version.
OTHER = f'PYTHONPATH=FOLDER:$PYTHONPATH exec {sys.executable} "$@"'

#: The document's training; then it is used as the document says that one may: for scoring, at the driver.
DOCUMENT = """
library(tfmuster)
digits <- mnist(Sys.getenv("TFMUSTER_MNIST"))
train <- function(strategy, data) {
  result <- train_mnist("cnn", dataset = data, strategy = strategy, verbose = FALSE, recipe = "document")
  list(accuracy = result$test_accuracy, model = result$model, r = R.version$minor)
}
spark <- do.call(on_spark, as.list(commandArgs(TRUE)))
values <- launch(train, Sys.getenv("TFMUSTER_MNIST"), workers = 3, quiet = TRUE, on = spark,
                 control = launch_control(start_timeout = 180))
accuracy <- vapply(values, function(value) value$accuracy, numeric(1))
cat("accuracies", format(accuracy, digits = 15), "\\n")
scores <- predict(values[["worker 0"]]$model, digits$x_test)
right <- mean(max.col(as.matrix(scores), ties.method = "first") - 1 == reticulate::py_to_r(digits$y_test))
cat("scored", format(right, digits = 15), is.null(values[["worker 1"]]$model), "\\n")
"""


@on_spark
@pytest.mark.usefixtures("tfmuster_in_r")
@pytest.mark.slow
@pytest.mark.skipif("TFMUSTER_MNIST" not in os.environ, reason="needs real digits, TFMUSTER_MNIST")
@pytest.mark.parametrize("master", ["standalone", LOCAL_CLUSTER, "local[3]"])
def test_as_the_document_ends(request: pytest.FixtureRequest, tmp_path: Path, master: str) -> None:
    """Three equal accuracies, and the model is fetched and used for scoring in R."""
    url = request.getfixturevalue("cluster").url if master == "standalone" else master
    script = tmp_path / "document.R"
    script.write_text(DOCUMENT)
    done = subprocess.run(
        ["Rscript", script, url, *SMALL],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    accuracies = re.search("accuracies (.*)", done.stdout)[1].split()  # type: ignore[index]
    assert len(accuracies) == 3 and len(set(accuracies)) == 1
    scored, gone = re.search("scored (.*)", done.stdout)[1].split()  # type: ignore[index]
    assert gone == "TRUE"
    assert float(scored) == pytest.approx(float(accuracies[0]), abs=1e-6)
    nothing_left(tmp_path, seconds=5)


@pytest.fixture(scope="class")
def session(cluster: SparkCluster) -> Iterator[Any]:
    """A user's session, as it would be without a thought of tfmuster."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(cluster.url).config("spark.ui.enabled", "false")
    for option in SMALL:
        builder = builder.config(*option.split("=", 1))
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = builder.getOrCreate()
    # Spark's list also has the driver. On a busy machine, the last one comes after a minute.
    executors = made.sparkContext._jsc.sc().statusTracker().getExecutorInfos
    wait_until(lambda: len(executors()) == 4, 120)
    yield made
    made.stop()
    del os.environ["PYSPARK_PYTHON"]
    if before is not None:
        os.environ["PYSPARK_PYTHON"] = before


@on_spark
class TestOneSession:
    def test_two_jobs_one_after_the_other(self, session: Any, tmp_path: Path) -> None:
        def train(strategy: Any, steps: int) -> tuple[str, float, int]:
            import tensorflow as tf

            one = tf.constant(float(steps))
            total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", one))
            return os.getcwd(), float(total), strategy.num_replicas_in_sync

        for number in (1, 2):
            values = launch(train, number, workers=2, on=Spark(spark=session), run_dir=tmp_path / str(number))
            assert [value[1:] for value in values.values()] == [(2.0 * number, 2)] * 2
            assert values.run.status()["state"] == "done"
        assert not session.sparkContext.statusTracker().getActiveJobsIds()

    def test_too_few_slots(self, session: Any, tmp_path: Path) -> None:
        script = write(tmp_path, "t.py", "")
        # By now all executors have come, or have had the time.
        launch(script, workers=3, on=Spark(spark=session), run_dir=tmp_path / "enough", quiet=True)
        begun = time.monotonic()
        with pytest.raises(LaunchError) as caught:
            launch(script, workers=5, on=Spark(spark=session), run_dir=tmp_path / "run")
        assert in_time(begun, 15)
        assert caught.value.found is not None
        assert caught.value.found.startswith("5 tasks, 3 slots on 3 executors of spark://127.0.0.1:")
        assert caught.value.fields["slots"] == 3

    def test_a_failing_task_is_the_first_and_ends_the_others(self, session: Any, tmp_path: Path) -> None:
        script = write(
            tmp_path,
            "t.py",
            "import json, os, time",
            "if json.loads(os.environ['TF_CONFIG'])['task']['index'] == 2: raise KeyError('no such digit')",
            "time.sleep(120)",
        )
        begun = time.monotonic()
        with pytest.raises(WorkerError) as caught:
            launch(script, workers=3, on=Spark(spark=session), run_dir=tmp_path / "run", quiet=True)
        assert in_time(begun, 60)
        assert caught.value.fields["task"] == "worker 2"
        assert "KeyError: 'no such digit'" in caught.value.fields["traceback"]
        assert "t.py" in caught.value.fields["traceback"]
        tracker = session.sparkContext.statusTracker()
        wait_until(lambda: not tracker.getActiveJobsIds())
        nothing_left(tmp_path, seconds=5)

    def test_lines_come_as_they_are_written(self, session: Any, tmp_path: Path) -> None:
        script = write(
            tmp_path, "t.py", "import time", "print('early', flush=True)", "time.sleep(4)", "print('late')"
        )
        log = tmp_path / "run" / "logs" / "worker-0.log"
        early: list[float] = []

        def watch() -> None:
            wait_until(lambda: log.exists() and log.read_text() == "early\n", seconds=90)
            early.append(time.monotonic())

        watcher = threading.Thread(target=watch)
        watcher.start()
        launch(script, workers=1, on=Spark(spark=session), run_dir=tmp_path / "run", quiet=True)
        watcher.join()
        assert time.monotonic() - early[0] > 3
        assert log.read_text() == "early\nlate\n"

    def test_all_start_again_and_what_the_chief_writes_comes_back(self, session: Any, tmp_path: Path) -> None:
        script = write(
            tmp_path,
            "t.py",
            "import os, pathlib, sys",
            "attempt = os.environ['TFMUSTER_RESTART']",
            "pathlib.Path('model.keras').write_text(f'of attempt {attempt}')",
            "sys.exit(0 if attempt == '1' else 7)",
        )
        run = launch(
            *(script,),
            workers=2,
            on=Spark(spark=session),
            run_dir=tmp_path / "run",
            max_restarts=1,
            quiet=True,
        )
        assert (run.status()["state"], run.status()["restarts"]) == ("done", 1)
        assert (run.path / "files" / "model.keras").read_text() == "of attempt 1"

    def test_values_and_what_was_sent_along(self, session: Any, tmp_path: Path) -> None:
        beside = write(tmp_path, "beside.txt", "it came along")

        def read(strategy_name: str) -> tuple[str, str]:
            return Path("beside.txt").read_text(), strategy_name

        values = launch(
            *(read, "x"), workers=2, on=Spark(spark=session, files=[beside]), run_dir=tmp_path / "run"
        )
        assert list(values.values()) == [("it came along\n", "x")] * 2
        more = launch(placed, 1, Digits(1), workers=1, on=Spark(), run_dir=tmp_path / "active")
        assert more["worker 0"][:2] == ("worker 0", 42)

    def test_another_master_beside_it(self, session: Any, tmp_path: Path) -> None:
        with pytest.raises(LaunchError, match="A process can have only one Spark session"):
            launch(placed, 1, None, on=Spark("local[2]"), run_dir=tmp_path / "run")

    def test_an_interrupt_ends_the_stage(self, session: Any, tmp_path: Path) -> None:
        script = write(tmp_path, "t.py", "import time", "print('up', flush=True)", "time.sleep(120)")
        log = tmp_path / "run" / "logs" / "worker-0.log"

        def interrupt() -> None:
            wait_until(lambda: log.exists() and "up" in log.read_text(), seconds=90)
            os.kill(os.getpid(), 2)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            launch(script, workers=2, on=Spark(spark=session), run_dir=tmp_path / "run", quiet=True)
        wait_until(lambda: not session.sparkContext.statusTracker().getActiveJobsIds())
        nothing_left(tmp_path, seconds=5)


@on_spark
@pytest.mark.skipif(not may_rename_machines(), reason="needs root on Linux, for machine names")
class TestAnExecutorsHost:
    """Three workers as they should be, and others on machines of other names where something is missing."""

    @pytest.mark.parametrize(
        ("script", "lacking", "found"),
        [
            ("t.py", [None], ['127.0.0.9: there is no such Python (Cannot run program "tfm-python"']),
            ("t.py", [{"tfm-python": OTHER}], ["127.0.0.9: Python 3.9, the driver "]),
            (
                "t.R",
                [{}, {"Rscript": "echo 'Rscript (R) version 3.1.4'"}],
                ["node9: no Rscript", "node8: R 3.1, the others R "],
            ),
        ],
        ids=["no Python", "another Python", "no R, and another R"],
    )
    def test_what_it_lacks_is_said_with_its_name(
        self,
        cluster: SparkCluster,
        tmp_path: Path,
        script: str,
        lacking: list[dict[str, str] | None],
        found: list[str],
    ) -> None:
        if script == "t.R" and shutil.which("Rscript") is None:
            pytest.skip("no R")
        write(tmp_path, script, "")
        write(
            tmp_path,
            "sitecustomize.py",
            "import collections, sys",
            "kind = collections.namedtuple('version_info', 'major minor micro releaselevel serial')",
            "sys.version_info = kind(3, 9, 0, 'final', 0)",
        )
        bad = []
        try:
            for number, programs in enumerate(lacking):
                path = tmp_path / f"programs{number}"
                if programs is not None:
                    few_programs(path, programs, FOLDER=tmp_path)
                name, host, node = f"bad{os.urandom(3).hex()}", f"127.0.0.{9 - number}", f"node{9 - number}"
                bad.append(cluster.start_worker(name, host, node, PATH=str(path), JAVA_HOME=java_home()))
            count = 3 + len(bad)
            done = tfmuster(
                *("launch", "--backend", "spark", "--master", cluster.url, "-n", count, *options(), script),
                cwd=tmp_path,
                limit=150,
                PATH=f"{cluster.folder / 'programs'}:{os.environ['PATH']}",
                PYSPARK_PYTHON="tfm-python",
            )
        finally:
            for worker in bad:
                cluster.stop(worker)
        assert done.returncode == 2, done.stderr
        assert all(text in done.stderr for text in found), done.stderr
        assert f"Error: {len(bad)} of the " in done.stderr


@on_spark
class TestCommandLine:
    def test_each_task_has_gpus_of_its_own(self, tmp_path: Path) -> None:
        discover = write(
            tmp_path, "discover.sh", "#!/bin/sh", """echo '{"name": "gpu", "addresses": ["4", "7"]}'"""
        )
        discover.chmod(0o755)
        write(tmp_path, "t.py", "import os", "print('sees', os.environ['CUDA_VISIBLE_DEVICES'])")
        gpus = [
            "spark.worker.resource.gpu.amount=2",
            f"spark.worker.resource.gpu.discoveryScript={discover}",
            "spark.executor.resource.gpu.amount=2",
            "spark.task.resource.gpu.amount=1",
        ]
        done = tfmuster(
            *("launch", "--backend", "spark", "--master", "local-cluster[1,2,512]", "-n", 2, *options(*gpus)),
            *("--gpus-per-worker", 1, "t.py"),
            cwd=tmp_path,
            limit=150,
        )
        assert done.returncode == 0, done.stderr
        assert sorted(re.findall("sees (.*)", done.stdout)) == ["4", "7"]

    def test_encryption_is_refused_unless_allowed(self, tmp_path: Path) -> None:
        write(tmp_path, "t.py", "import sys", "print('ran', sys.argv[1:])")
        secret = options("spark.ssl.enabled=true")
        command = ["launch", "--backend", "spark", "--master", "local[1]", "-n", 1]
        refused = tfmuster(*command, *secret, "t.py", cwd=tmp_path)
        assert refused.returncode == 2
        assert "found: spark.ssl.enabled is true" in refused.stderr
        allowed = tfmuster(
            *command, *secret, "--backend-option", "plain=yes", "t.py", "a b", cwd=tmp_path, limit=150
        )
        assert allowed.returncode == 0, allowed.stderr
        assert allowed.stdout == "worker 0 | ran ['a b']\n"

    def test_without_waiting(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TFMUSTER_START_TIMEOUT", "120")
        run = launch(placed, 1, Digits(1), workers=1, on=Spark("local[1]", *SMALL), wait=False)
        assert run.values()["worker 0"][:2] == ("worker 0", 42)

    def test_modules_that_the_executors_python_lacks(self, tmp_path: Path) -> None:
        write(tmp_path, "t.py", "")
        bare = write(tmp_path, "bare", "#!/bin/sh", f'exec {sys.executable} -S "$@"')
        bare.chmod(0o755)
        done = tfmuster(
            *("launch", "--backend", "spark", "--master", "local[1]", "-n", 1, *options()),
            *("--remote-python", bare, "t.py"),
            cwd=tmp_path,
            limit=150,
        )
        assert done.returncode == 2, done.stderr
        host = socket.gethostname()
        assert (
            f"Error: The host can't take part.\n  found: {host}: tfmuster can't start: no module"
            in done.stderr
        )
