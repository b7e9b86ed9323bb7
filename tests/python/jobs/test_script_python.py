"""The Python of a script: tfmuster's, or that of the script's own environment if only that has TensorFlow."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tfmuster
from support.environments import OF_THE_COMMAND, OF_WORKERS, make_environment
from support.launching import environment, nothing_left, write
from support.r import NEEDS_R

SOURCE = Path(tfmuster.__file__).parent
SAY = "import sys; print('ran', sys.executable, sys.argv[1:], flush=True)"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path):
    yield
    nothing_left(tmp_path)


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pythons by what they have: tfmuster as its users install it, and TensorFlow, or not."""
    folder = tmp_path_factory.mktemp("environments")
    made = {
        "tool": make_environment(folder / "tool", *OF_THE_COMMAND),
        "complete": make_environment(folder / "complete", *OF_THE_COMMAND, tensorflow=True),
        "project": make_environment(folder / "project", *OF_WORKERS, tensorflow=True),
        "other": make_environment(folder / "other", *OF_WORKERS, tensorflow=True),
        "bare": make_environment(folder / "bare", tensorflow=True),
        "without": make_environment(folder / "without", *OF_WORKERS),
    }
    for name in ("tool", "complete"):
        (site_packages,) = (folder / name).glob("lib/python*/site-packages")
        shutil.copytree(SOURCE, site_packages / "tfmuster", symlinks=True)
    return made


def launch(python: Path, *arguments: object, cwd: Path, **env: object) -> subprocess.CompletedProcess[str]:
    """Launch as the user of that Python."""
    variables = environment(**{name: str(value) for name, value in env.items()})
    for name in {"PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "RETICULATE_PYTHON"} - set(env):
        variables.pop(name, None)
    return subprocess.run(
        [python, "-m", "tfmuster", "launch", *map(str, arguments)],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def home(python: Path) -> Path:
    return python.parent.parent


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX", ".venv"])
def test_the_environment_that_alone_has_tensorflow(
    variable: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    write(tmp_path, "train.py", SAY)
    env, python = {variable: home(pythons["project"])}, pythons["project"]
    if variable == ".venv":
        env, python = {}, make_environment(tmp_path / ".venv", *OF_WORKERS, tensorflow=True)
    done = launch(pythons["tool"], "-n", 2, "train.py", "x", cwd=tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"[2 workers] | ran {python} ['x']"]
    assert f"2 workers on this machine, with {python}; run directory" in done.stderr


def test_a_module_runs_there_too(pythons: dict[str, Path], tmp_path: Path) -> None:
    write(tmp_path, "trainer.py", SAY)
    done = launch(
        pythons["tool"], "-n", 1, "-m", "trainer", cwd=tmp_path, VIRTUAL_ENV=home(pythons["project"])
    )
    assert f"ran {pythons['project']} []" in done.stdout, done.stderr


def test_the_active_environment_comes_first_if_it_has_tensorflow(
    pythons: dict[str, Path], tmp_path: Path
) -> None:
    write(tmp_path, "train.py", SAY)
    conda = {"CONDA_PREFIX": home(pythons["other"])}
    for active, used in (("project", "project"), ("without", "other")):
        done = launch(
            pythons["tool"], "-n", 1, "train.py", cwd=tmp_path, VIRTUAL_ENV=home(pythons[active]), **conda
        )
        assert f"ran {pythons[used]} []" in done.stdout, done.stderr


def test_a_python_with_tensorflow_runs_scripts_itself(pythons: dict[str, Path], tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY)
    env = {"VIRTUAL_ENV": home(pythons["project"])}
    done = launch(pythons["complete"], "-n", 1, "train.py", cwd=tmp_path, **env)
    assert f"ran {pythons['complete']} []" in done.stdout, done.stderr
    assert "this machine; run directory" in done.stderr
    # And if no environment has it, tfmuster's Python runs the script as before.
    env = {"VIRTUAL_ENV": home(pythons["without"]), "CONDA_PREFIX": tmp_path / "gone"}
    done = launch(pythons["tool"], "-n", 1, "train.py", cwd=tmp_path, **env)
    assert f"ran {pythons['tool']} []" in done.stdout, done.stderr


def test_its_processes_wait_for_a_restart_too(pythons: dict[str, Path], tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY, "import os; sys.exit(os.environ['TFMUSTER_RESTART'] == '0')")
    env = {"VIRTUAL_ENV": home(pythons["project"])}
    done = launch(pythons["tool"], "-n", 1, "--warm", "--max-restarts", 1, "train.py", cwd=tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"ran {pythons['project']} []") == 2


def test_an_environment_that_can_not_run_workers_is_refused(pythons: dict[str, Path], tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", SAY)
    env = {"VIRTUAL_ENV": home(pythons["bare"])}
    done = launch(pythons["tool"], "-n", 1, script, cwd=tmp_path, **env)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        "Error: The Python that has TensorFlow must be able to run a worker.\n"
        f"  found: {pythons['bare']} has TensorFlow, but no orjson, no psutil; {pythons['tool']} has "
        f"tfmuster {tfmuster.__version__}, but no TensorFlow\n"
        f"  to do: Install it there: {pythons['bare']} -m pip install tfmuster=={tfmuster.__version__}. To "
        "choose a Python yourself: tfmuster launch [OPTIONS] -- PATH/TO/PYTHON script.py\n"
    )
    assert not (tmp_path / "runs").exists()
    # What it says works.
    done = launch(pythons["tool"], "-n", 1, "--", pythons["tool"], script, cwd=tmp_path, **env)
    assert f"ran {pythons['tool']} []" in done.stdout, done.stderr


def test_another_tfmuster_there_is_refused(pythons: dict[str, Path], tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY)
    python = make_environment(tmp_path / ".venv", *OF_WORKERS, tensorflow=True)
    (site_packages,) = (tmp_path / ".venv").glob("lib/python*/site-packages")
    (site_packages / "tfmuster").mkdir()
    write(site_packages / "tfmuster", "__init__.py", "__version__ = '0.0.1'")
    done = launch(pythons["tool"], "-n", 1, "train.py", cwd=tmp_path)
    assert done.returncode == 2 and f"{python} has TensorFlow, but tfmuster 0.0.1;" in done.stderr


@NEEDS_R
def test_a_script_of_r_takes_the_environment_of_r(pythons: dict[str, Path], tmp_path: Path) -> None:
    """It is that of install_tfmuster(), and no variable has chosen another."""
    write(tmp_path, "train.R", 'cat("ran", Sys.getenv("RETICULATE_PYTHON"), "\\n")')
    python = make_environment(tmp_path / "envs" / "r-tfmuster", *OF_WORKERS, tensorflow=True)
    given = {
        "WORKON_HOME": tmp_path / "envs",
        "VIRTUAL_ENV": home(pythons["project"]),
        "RETICULATE_PYTHON": "",
    }
    for command, env, used in (
        ("tool", given, python),
        ("tool", {**given, "WORKON_HOME": tmp_path}, pythons["project"]),
        ("tool", {**given, "RETICULATE_PYTHON": pythons["other"]}, pythons["other"]),
        ("complete", given, pythons["complete"]),
    ):
        done = launch(pythons[command], "-n", 1, "train.R", cwd=tmp_path, **env)
        assert f"ran {used}" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "import absent.part",
            "Install absent for the Python that runs the workers, {} (VIRTUAL_ENV): {} -m pip install ",
        ),
        (
            "from json import absent",
            "The import failed in the Python that runs the workers, {} (VIRTUAL_ENV). Repair its packages",
        ),
        (
            "import tensorflow.absent",
            "Install TensorFlow for the Python that runs the workers, {} (VIRTUAL_ENV): {} -m pip",
        ),
    ],
)
def test_a_failed_import_names_the_python_and_how_to_choose_another(
    line: str, told: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    write(tmp_path, "train.py", f"import sys; sys.modules['tensorflow'] = sys\n{line}")
    done = launch(pythons["tool"], "-n", 1, "train.py", cwd=tmp_path, VIRTUAL_ENV=home(pythons["project"]))
    assert done.returncode == 1
    assert told.format(*2 * [pythons["project"]]) in done.stderr, done.stderr
    assert done.stderr.endswith("tfmuster launch [OPTIONS] -- PATH/TO/PYTHON script.py\n")
    # Any session says the same, whichever Python that has.
    shown = subprocess.run(
        [sys.executable, "-m", "tfmuster", "runs", "show"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(SOURCE.parent)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.format(*2 * [pythons["project"]]) in shown.stdout + shown.stderr


def in_r(python: Path, *lines: str, cwd: Path, **env: object) -> str:
    """What R prints whose reticulate has that Python."""
    done = subprocess.run(
        ["Rscript", "-e", "\n".join(["library(tfmuster)", *lines])],
        cwd=cwd,
        env=environment(RETICULATE_PYTHON=str(python), **{name: str(value) for name, value in env.items()}),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr


@NEEDS_R
@pytest.mark.timeout(200)
def test_r_launches_a_python_script_in_the_same_python(pythons: dict[str, Path], tmp_path: Path) -> None:
    write(tmp_path, "train.py", SAY)
    env = {"VIRTUAL_ENV": home(pythons["project"])}
    said = in_r(pythons["tool"], "launch('train.py', workers = 1)", cwd=tmp_path, **env)
    assert f"worker 0 | ran {pythons['project']} []" in said
    # The workers of a function share the session's Python.
    said = in_r(
        pythons["tool"],
        "v <- launch(function() Sys.getenv('RETICULATE_PYTHON'), workers = 1)",
        "cat('used', v[[1]])",
        cwd=tmp_path,
        **env,
    )
    assert f"used {pythons['tool']}" in said


@NEEDS_R
@pytest.mark.timeout(200)
def test_an_import_that_fails_in_an_r_script_names_its_python(
    pythons: dict[str, Path], tmp_path: Path
) -> None:
    write(tmp_path, "train.R", "reticulate::import('absent')")
    said = in_r(pythons["tool"], "launch('train.R', workers = 1)", cwd=tmp_path)
    python = pythons["tool"]
    told = (
        f"for the Python that runs the workers, {python} (RETICULATE_PYTHON): {python} -m pip install absent"
    )
    assert told in " ".join(said.split()), said
    assert "choose another by the environment variable RETICULATE_PYTHON" in " ".join(said.split())
