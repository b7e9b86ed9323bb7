"""``tfmuster config`` and ``tfmuster check``, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tfmuster
from support.config_verb import ONE, TWO, run
from tfmuster import Cluster, tf_config_json
from tfmuster.cli import main


def test_one_task() -> None:
    done = run("config", *TWO, "--type", "worker", "--index", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, ONE + "\n", "")


def test_the_task_s_json_is_that_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--chief", "c:1", "--evaluator", "e:1", "--ps", "[2001:db8::1]:1", *TWO]
    cluster = Cluster(chief=["c:1"], evaluator=["e:1"], ps=["[2001:db8::1]:1"], worker=["a:1", "b:2"])
    assert main(["config", *arguments, "--type", "ps", "--index", "0", "--pretty"]) == 0
    assert capsys.readouterr().out == tf_config_json(cluster.task("ps", 0), pretty=True) + "\n"
    assert main(["config", *arguments, "--all"]) == 0
    assert capsys.readouterr().out.splitlines() == [tf_config_json(task) for task in cluster.tasks()]


def test_dotenv_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *TWO, "--type", "worker", "--index", "1", "--format", "dotenv"]) == 0
    assert capsys.readouterr().out == f"TF_CONFIG='{ONE}'\n"


def test_all_lines_say_for_whom_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *TWO, "--all", "--format", "shell"]) == 0
    assert capsys.readouterr().out.splitlines()[::2] == ["# worker 0 at a:1", "# worker 1 at b:2"]


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("worker: [a:1, b:2]\n")
    assert main(["config", "--cluster", str(path), "--type", "worker", "--index", "1"]) == 0
    assert capsys.readouterr().out == ONE + "\n"
    monkeypatch.setenv("TF_CONFIG", ONE)
    assert main(["config"]) == 0
    assert capsys.readouterr().out == ONE + "\n"
    assert main(["config", "--type", "worker", "--index", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["task"]["index"] == 0
    done = run(
        "config", "--cluster", "-", "--type", "worker", "--index", "1", stdin='{"worker": ["a:1", "b:2"]}'
    )
    assert done.stdout == ONE + "\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["config", *TWO], "add --type and --index, or --all"),
        (["config", *TWO, "--type", "worker"], "task.index"),
        (["config", *TWO, "--type", "worker", "--index", "2"], "the last index is 1"),
        (["config", *TWO, "--type", "worker", "--index", "-1"], "the first index is 0"),
        (["config", *TWO, "--type", "worker", "--index", "x"], "write it as 0, 1, 2, ..."),
        (["config", *TWO, "--all", "--index", "0"], "either --all"),
        (["config", *TWO, "--cluster", "x.json", "--all"], "in one way only"),
        (["config", "--cluster", "/no/such.json", "--all"], "No such file"),
        (["config", "--all"], "TF_CONFIG is not set"),
        (["config", "--worker", "a", "--all"], "add one, such as :2222"),
        (["config", "--format", "xml"], "xml"),
        (["config", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["check"], "tf-config-not-set"),
        (["check", "--worker", "a"], "port-missing"),
    ],
)
def test_errors_exit_with_2_and_say_what_to_do(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert says in (out if arguments[0] == "check" else err)
    assert "Traceback" not in err


def test_repairs_are_told_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"worker": "a:1"}')
    assert main(["config", "--cluster", str(path), "--all"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["cluster"] == {"worker": ["a:1"]}
    assert "lone-address" in err


def test_a_file_is_given_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"worker": ["a:1", "b"]}')
    assert main(["check", str(path)]) == 2 == main(["check", "--cluster", str(path)])
    by_name, by_option = capsys.readouterr().out.split("1 error\n")[:2]
    assert "port-missing" in by_name and by_name == by_option
    assert main(["check", str(path), "--cluster", str(path)]) == 2
    assert "Give the file of a cluster once" in capsys.readouterr().err


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *TWO]) == 0
    assert capsys.readouterr().out == "cluster of 2 tasks\n  worker 0  a:1\n  worker 1  b:2\nno findings\n"
    assert main(["check", "--worker", "a", "--worker", "b:0", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert [finding["code"] for finding in report["findings"]] == ["port-missing", "port-zero"]
    assert (report["ok"], report["cluster"], report["task"]) == (False, None, None)


def test_check_connects(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["check", "--worker", address, "--connect", "--timeout", "5"]) == 0
    assert "no findings" in capsys.readouterr().out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tfmuster {tfmuster.__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "config" in out and "check" in out and "Exit codes" in out


def test_a_misspelt_verb_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lunch", "-n", "2"]) == 2
    assert "Error: No such command 'lunch'. Did you mean 'launch'?" in capsys.readouterr().err
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("Error: No such command 'nothing'.")


def test_every_listed_verb_can_be_loaded_and_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    from tfmuster.cli import cli

    for verb in cli.list_commands(None):  # type: ignore[arg-type]
        assert main([verb, "--help"]) == 0
        assert verb in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verb", "example"),
    [
        (["launch"], "  tfmuster launch -n 2 train.py --epochs 3\n  tfmuster launch -n 4 train.R\n"),
        (["speed"], "  tfmuster speed mnist -n 2\n"),
        (["manifest", "ec2"], "--ssh-from 203.0.113.7/32 \\\n    --source https"),
    ],
)
def test_examples_in_help_can_be_copied(
    verb: list[str], example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert example in said
    assert "\\b" not in said


def test_exit_codes_of_errors_and_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfmuster.cli.cluster import config
    from tfmuster.errors import RendezvousError

    def fail_with(error: BaseException | type[BaseException]) -> int:
        def callback(**_: object) -> None:
            raise error

        monkeypatch.setattr(config, "callback", callback)
        return main(["config"])

    assert fail_with(KeyboardInterrupt()) == 130
    assert fail_with(RendezvousError("not everyone arrived")) == 3
    with pytest.raises(ZeroDivisionError):
        fail_with(ZeroDivisionError())
