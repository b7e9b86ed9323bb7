"""``tfmuster config`` and ``tfmuster check``, as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tfmuster
from tfmuster import Cluster, tf_config_json
from tfmuster.cli import main

TWO = ["--worker", "a:1", "--worker", "b:2"]
ONE = '{"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":1}}'
SOURCE = str(Path(tfmuster.__file__).parents[1])


@pytest.fixture(autouse=True)
def _no_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)


def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tfmuster", *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


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


@pytest.mark.parametrize("pretty", [False, True])
def test_a_shell_gets_the_text_unchanged(pretty: bool) -> None:
    line = run(
        "config", *TWO, "--type", "worker", "--index", "1", "--format", "shell", *["--pretty"][:pretty]
    )
    out = subprocess.run(
        ["sh", "-c", f'{line.stdout}\nprintf %s "$TF_CONFIG"'],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(out.stdout) == json.loads(ONE)
    assert pretty or out.stdout == ONE
    assert pretty or line.stdout == f"export TF_CONFIG='{ONE}'\n"


@pytest.mark.skipif(not shutil.which("Rscript"), reason="R is not installed")
@pytest.mark.parametrize("pretty", [False, True])
def test_r_gets_the_text_unchanged(pretty: bool, tmp_path: Path) -> None:
    line = run("config", *TWO, "--type", "worker", "--index", "1", "--format", "r", *["--pretty"][:pretty])
    value = r_value(line.stdout, tmp_path)
    assert json.loads(value) == json.loads(ONE)
    assert pretty or value == ONE


def r_value(code: str, folder: Path) -> str:
    """TF_CONFIG in R after this line of R."""
    script = folder / "line.R"
    script.write_text(f'{code}\ncat(Sys.getenv("TF_CONFIG"))\n')
    command = ["Rscript", "--vanilla", str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_dotenv_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", *TWO, "--type", "worker", "--index", "1", "--format", "dotenv"]) == 0
    assert capsys.readouterr().out == f"TF_CONFIG='{ONE}'\n"


@pytest.mark.parametrize("form", ["shell", "r", "dotenv"])
def test_quoting_is_safe_for_any_text(form: str, tmp_path: Path) -> None:
    # No valid address holds any of these; the quoting must not depend on that.
    from tfmuster.cli.config import _FORMATS

    text = "it's \"\\ $HOME `id`\n\\'"
    line = _FORMATS[form](text)
    if form == "shell":
        out = subprocess.run(
            ["sh", "-c", f'{line}; printf %s "$TF_CONFIG"'], capture_output=True, text=True, timeout=60
        )
        assert out.stdout == text
    elif form == "r" and shutil.which("Rscript"):
        assert r_value(line, tmp_path) == text
    else:
        assert line.endswith("'") and "'" not in line.split("'", 1)[1][:-1].replace("\\\\", "").replace(
            "\\'", ""
        )


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


def test_every_listed_verb_can_be_loaded_and_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    from tfmuster.cli import cli

    for verb in cli.list_commands(None):  # type: ignore[arg-type]
        assert main([verb, "--help"]) == 0
        assert verb in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verb", "example"),
    [
        (["launch"], "  tfmuster launch -n 2 train.py --epochs 3\n  tfmuster launch -n 4 train.R\n"),
        (["tune"], "  tfmuster tune mnist -n 2\n"),
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


def test_help_imports_no_verb() -> None:
    code = (
        "import sys; from tfmuster.cli import main; main(['--help']);"
        "print([m for m in sys.modules if 'tfmuster.cli.' in m])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert out.stdout.splitlines()[-1] == "[]"


def test_exit_codes_of_errors_and_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfmuster.cli import config
    from tfmuster.errors import RendezvousError

    def fail_with(error: BaseException | type[BaseException]) -> int:
        def callback(**_: object) -> None:
            raise error

        monkeypatch.setattr(config.command, "callback", callback)
        return main(["config"])

    assert fail_with(KeyboardInterrupt()) == 130
    assert fail_with(RendezvousError("not everyone arrived")) == 3
    with pytest.raises(ZeroDivisionError):
        fail_with(ZeroDivisionError())


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"worker": [f"n{i}:1" for i in range(2000)]}))
    command = f"{sys.executable} -m tfmuster config --cluster {path} --all | head -c 10"
    done = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ('{"cluster"', "")
