"""What a shell and R make of the lines that ``tfmuster config`` prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.config_verb import ONE, SOURCE, TWO, run
from support.r import NEEDS_R


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


@NEEDS_R
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


@pytest.mark.parametrize("form", ["shell", "r", "dotenv"])
def test_quoting_is_safe_for_any_text(form: str, tmp_path: Path) -> None:
    # No valid address holds any of these; the quoting must not depend on that.
    from tfmuster.cli.cluster import FORMATS

    text = "it's \"\\ $HOME `id`\n\\'"
    line = FORMATS[form](text)
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
