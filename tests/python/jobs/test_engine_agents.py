"""Jobs whose agents an engine has started: here plain processes, else as over Spark, Slurm or MPI."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest

from support.clock import in_time
from support.launching import nothing_left, read_json, wait_until, write
from support.placing import Plain
from tfmuster.errors import LaunchError, RendezvousError
from tfmuster.launcher.job import Job
from tfmuster.launcher.remote.engine_agents import AgentRequest, run_with_agents
from tfmuster.options.places import Elsewhere
from tfmuster.tracking.failure.failure import Failure
from tfmuster.tracking.run import Run

pytestmark = pytest.mark.timeout(60)


def run(
    folder: Path, starter: Plain, *command: object, workers: int = 2, **options: object
) -> tuple[Run, Failure | None]:
    job = Job([str(word) for word in command], workers=workers, run_dir=folder / "run", **options)  # type: ignore[arg-type]
    return run_with_agents(
        job,
        starter.where,
        starter.start,
        launcher_addresses=starter.launcher_addresses,
        show="all",
        tell=True,
    )


class TestJobs:
    def test_as_over_ssh(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        script = write(
            tmp_path,
            "t.py",
            "import json, os, pathlib, sys",
            "config = json.loads(os.environ['TF_CONFIG'])",
            "task = config['task']['type'] + str(config['task']['index'])",
            "run = pathlib.Path(os.environ['TFMUSTER_RUN_DIR'])",
            "(run / ('from-' + task)).write_text(open('beside.txt').read())",
            "print(task, sys.argv[1:], len(os.environ['TFMUSTER_TOKEN']), len(config['cluster']['worker']))",
        )
        beside = write(tmp_path, "beside.txt", "it came along")
        starter = Plain(Elsewhere(copy=True, files=[beside]))
        ended, failure = run(tmp_path, starter, script, "a b", "$(x)", ps=1)
        assert failure is None
        out, err = capfd.readouterr()
        lines = sorted(line.split("|")[1].strip() for line in out.splitlines())
        assert lines == [f"{task} ['a b', '$(x)'] 64 2" for task in ("ps0", "worker0", "worker1")]
        assert (ended.path / "from-worker1").read_text() == "it came along\n"
        assert read_json(ended.path / "status.json")["state"] == "done"
        assert len(set(read_json(ended.path / "run.json")["cluster"]["worker"])) == 2
        assert f"tfmuster: 3 tasks on {socket.gethostname()}; run directory" in err
        (call,) = starter.calls
        assert not any(call.env["TFMUSTER_TOKEN"] in word for word in call.command("python", rank=0))

    def test_output_comes_as_it_is_written(self, tmp_path: Path) -> None:
        script = write(
            tmp_path, "t.py", "import time", "print('early', flush=True)", "time.sleep(3)", "print('late')"
        )
        seen: list[float] = []

        class Watching(Plain):
            def end(self) -> None:
                log = (tmp_path / "run" / "logs" / "worker-0.log").read_text()
                seen.append(time.time())
                assert log == "early\nlate\n"
                super().end()

        log = tmp_path / "run" / "logs" / "worker-0.log"
        early: list[float] = []

        def watch() -> None:
            wait_until(lambda: log.exists() and "early" in log.read_text())
            early.append(time.time())

        watcher = threading.Thread(target=watch)
        watcher.start()
        run(tmp_path, Watching(), script, workers=1)
        watcher.join()
        assert seen[0] - early[0] > 2

    def test_a_failure_is_the_workers_own(self, tmp_path: Path) -> None:
        script = write(
            tmp_path,
            "t.py",
            "import json, os, time",
            "if json.loads(os.environ['TF_CONFIG'])['task']['index']: raise KeyError('no such digit')",
            "time.sleep(60)",
        )
        begun = time.monotonic()
        ended, failure = run(tmp_path, Plain(), script)
        assert failure is not None
        assert (failure.task, failure.exit_code, failure.error) == (
            "worker 1",
            1,
            "KeyError: 'no such digit'",
        )
        assert "t.py" in failure.traceback
        assert in_time(begun, 15)
        assert read_json(ended.path / "error.json")["task"] == "worker 1"
        nothing_left(tmp_path, seconds=3)

    @pytest.mark.parametrize(
        ("ending", "code"), [("sys.exit(7)", (7, None)), ("os.kill(os.getpid(), 9)", (None, "SIGKILL"))]
    )
    def test_how_it_ended(self, tmp_path: Path, ending: str, code: tuple[int | None, str | None]) -> None:
        _, failure = run(tmp_path, Plain(), write(tmp_path, "t.py", "import os, sys", ending), workers=1)
        assert failure is not None
        assert (failure.exit_code, failure.signal) == code

    def test_all_start_again_with_new_agents(self, tmp_path: Path) -> None:
        script = write(
            tmp_path,
            "t.py",
            "import os, sys",
            "print('restart', os.environ['TFMUSTER_RESTART'])",
            "sys.exit(0 if os.environ['TFMUSTER_RESTART'] == '1' else 9)",
        )
        starter = Plain()
        ended, failure = run(tmp_path, starter, script, max_restarts=2)
        assert failure is None
        assert [call.count for call in starter.calls] == [2, 2]
        assert len({call.env["TFMUSTER_TOKEN"] for call in starter.calls}) == 2
        assert read_json(ended.path / "status.json")["restarts"] == 1

    def test_an_agent_that_is_gone_is_the_failure(self, tmp_path: Path) -> None:
        lines = ["import time", "print('up', flush=True)", "time.sleep(60)"]
        script = write(tmp_path, f"lonely_{os.getpid()}.py", *lines)

        class Deadly(Plain):
            def start(self, call: AgentRequest) -> Plain:
                started = super().start(call)

                def kill() -> None:
                    log = tmp_path / "run" / "logs" / "worker-1.log"
                    wait_until(lambda: log.exists() and "up" in log.read_text())
                    self.processes[1].kill()

                threading.Thread(target=kill, daemon=True).start()
                return started

        _, failure = run(tmp_path, Deadly(), script)
        assert failure is not None
        assert failure.headline().startswith(f"worker 1 on {socket.gethostname()} was lost: ")
        # The guard of the agent ends a worker that would continue alone.
        wait_until(lambda: not _workers_of(script))

    def test_an_engines_gpus_are_the_agents_own(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script = write(tmp_path, "t.py", "import os", "print('sees', os.environ.get('CUDA_VISIBLE_DEVICES'))")
        _, failure = run(tmp_path, Plain(gpus=["3", "5"]), script, gpus_per_worker=1)
        assert failure is None
        lines = sorted(line.replace(" ", "") for line in capfd.readouterr().out.splitlines())
        assert lines == ["worker0|sees3", "worker1|sees5"]


def _workers_of(script: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if script.name in " ".join(process.info["cmdline"] or ()) and process.pid != os.getpid():
            found.append(process.pid)
    return found


class TestWhoDoesNotCome:
    def test_is_named_in_time(self, tmp_path: Path) -> None:
        script = write(tmp_path, "t.py", "")
        begun = time.monotonic()
        with pytest.raises(RendezvousError) as caught:
            run(tmp_path, Plain(absent=[1]), script, workers=3, start_timeout=10.0)
        assert in_time(begun, 18)
        assert caught.value.message == "Not all of the 3 agents have called within 10 s."
        host = socket.gethostname()
        assert caught.value.found == (
            f"nothing from worker 1\n         there are: worker 0 on {host}, worker 2 on {host}"
        )
        assert caught.value.fields["missing"] == ["worker 1"]
        assert not (tmp_path / "run").exists()

    def test_another_secret_is_refused(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        script = write(tmp_path, "t.py", "")
        with pytest.raises(RendezvousError) as caught:
            run(tmp_path, Plain(strange=[0], launcher_addresses=["127.0.0.1"]), script, start_timeout=10.0)
        assert caught.value.fields["missing"] == ["worker 0"]
        assert "127.0.0.1 called without the job's secret" in str(caught.value.found)
        assert "127.0.0.1" in (err := capfd.readouterr().err) and "it knows another token" in err

    def test_trouble_of_the_engine_is_said_at_once(self, tmp_path: Path) -> None:
        script = write(tmp_path, "t.py", "")
        begun = time.monotonic()
        trouble = LaunchError("There must be room for every task.", found="2 slots", reason="slots")
        with pytest.raises(LaunchError, match="room for every task"):
            run(tmp_path, Plain(absent=[0], why=trouble), script)
        assert in_time(begun, 10)

    def test_nothing_is_started_for_a_script_that_is_not_there(self, tmp_path: Path) -> None:
        starter = Plain()
        with pytest.raises(LaunchError, match="must exist"):
            run(tmp_path, starter, tmp_path / "gone.py")
        assert not starter.calls

    def test_what_is_wrong_on_a_host_is_said_of_it(self, tmp_path: Path) -> None:
        script = write(tmp_path, "t.R", "")
        with pytest.raises(LaunchError) as caught:
            run(tmp_path, Plain(env={"PATH": "/nowhere"}), script, workers=1)
        assert caught.value.message == "The host can't take part."
        assert caught.value.found == f"{socket.gethostname()}: no Rscript"
