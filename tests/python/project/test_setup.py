"""The set-up as a machine without root, without R or without apt sees it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.paths import ROOT

pytestmark = pytest.mark.skipif(not (ROOT / "scripts").exists(), reason="not in a checkout")


def tools(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment whose PATH has a few real tools and pretended ones that do as the scripts say."""
    folder.mkdir(exist_ok=True)
    for name in ("bash", "grep", "touch", "mkdir", "env", "cat", "rm", "dirname", "tail"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, script in scripts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder), "LOGS": str(folder.parent / "logs")}


def set_up(script: str, *arguments: object, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("bash") or "bash", f"scripts/{script}", *map(str, arguments)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HAVE_ALL = "echo installed"
HAVE_NOTHING = "exit 1"
HAVE_NO_QPDF = '[ "${@: -1}" = qpdf ] || echo installed'
HAVE_NO_RETICULATE = '[ "${@: -1}" = r-cran-reticulate ] || echo installed'
GROUPS = ("run", "develop", "test")


def asked_of_apt(tmp_path: Path, group: str) -> set[str]:
    """The packages of a group, on a machine that has none of them."""
    env = tools(tmp_path / group, dpkg_query=HAVE_NOTHING, apt_get='echo "apt-get $@"', id="echo 0")
    done = set_up("system.sh", group, tmp_path / f"stamp-{group}", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    update, install = (tmp_path / "logs" / f"system-{group}.log").read_text().splitlines()
    assert update == "apt-get update -q"
    asked = install.removeprefix("apt-get install -q -y --no-install-recommends ").split()
    assert len(asked) == len(set(asked))
    return set(asked)


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_is_asked_of_apt_when_all_is_there(tmp_path: Path, group: str) -> None:
    env = tools(tmp_path / "bin", dpkg_query=HAVE_ALL, apt_get="echo apt-get; exit 1", id="echo 0")
    done = set_up("system.sh", group, tmp_path / "stamp", env=env)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "stamp").exists()


def test_to_train_takes_r_its_imported_packages_and_python_only(tmp_path: Path) -> None:
    fields = re.split(r"\n(?=\S)", (ROOT / "DESCRIPTION").read_text())
    (imports,) = (field.removeprefix("Imports:") for field in fields if field.startswith("Imports:"))
    names = {re.sub(r"\(.*", "", each).strip() for each in imports.split(",")}
    of_r_itself = {"graphics", "grDevices", "stats", "tools", "utils"}
    assert asked_of_apt(tmp_path, "run") == {
        "r-base-core",
        *(f"r-cran-{name}" for name in names - of_r_itself),
        "r-cran-jsonlite",
        *("r-cran-knitr", "r-cran-rmarkdown", "pandoc"),  # the vignettes are made with them
        "python3-venv",
    }


def test_each_group_asks_for_what_the_others_do_not(tmp_path: Path) -> None:
    run, develop, test = (asked_of_apt(tmp_path, group) for group in GROUPS)
    assert not (run & develop or run & test or develop & test)
    assert {"r-cran-testthat", "r-cran-lintr", "qpdf"} <= develop
    heavy = {"chromium", "openjdk-17-jre-headless", "openmpi-bin", "mpich", "nftables", "openssh-client"}
    assert heavy <= test
    if not Path("/run/systemd/system").is_dir():
        assert {"openssh-server", "munge", "slurmctld", "slurmd"} <= test


def test_a_group_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = set_up("system.sh", "rum", tmp_path / "stamp", env=tools(tmp_path / "bin"))
    assert done.returncode == 2
    assert "no group 'rum'" in done.stderr
    assert not (tmp_path / "stamp").exists()


def test_root_installs_what_is_missing_and_no_more(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin", dpkg_query=HAVE_NO_QPDF, apt_get='echo "apt-get $@"', id="echo 0")
    done = set_up("system.sh", "develop", tmp_path / "stamp", env=env)
    assert done.returncode == 0
    assert re.fullmatch(r"Installing with apt-get: qpdf \.\.\. done \(\d+ s\)\n", done.stdout)
    assert (tmp_path / "logs" / "system-develop.log").read_text().splitlines() == [
        "apt-get update -q",
        "apt-get install -q -y --no-install-recommends qpdf",
    ]
    assert (tmp_path / "stamp").exists()


def test_a_step_that_fails_shows_its_last_lines_and_where_the_others_are(tmp_path: Path) -> None:
    fails = 'for i in {1..40}; do echo "line $i"; done; echo "E: no space left" >&2; exit 100'
    env = tools(tmp_path / "bin", dpkg_query=HAVE_NO_RETICULATE, apt_get=fails, id="echo 0")
    done = set_up("system.sh", "run", tmp_path / "stamp", env=env)
    assert done.returncode == 0  # the other parts of the set-up continue
    log = tmp_path / "logs" / "system-run.log"
    assert re.search(r"^Installing with apt-get: r-cran-reticulate \.\.\. failed", done.stdout)
    shown = done.stderr.splitlines()
    assert shown[-1] == f"    All of it: {log}"
    assert shown[-2] == "    | E: no space left"
    assert shown[1] == "    | line 27"
    assert log.read_text().startswith("line 1\n")
    assert "apt-get install r-cran-reticulate" in done.stdout
    assert not (tmp_path / "stamp").exists()


@pytest.mark.parametrize(("who", "apt"), [("1000", "exit 0"), ("0", "exit 100")])
def test_without_root_or_without_network_it_says_what_to_install(tmp_path: Path, who: str, apt: str) -> None:
    env = tools(tmp_path / "bin", dpkg_query=HAVE_NO_QPDF, apt_get=apt, id=f"echo {who}")
    done = set_up("system.sh", "develop", tmp_path / "stamp", env=env)
    assert done.returncode == 0
    assert "apt-get install qpdf" in done.stdout
    assert not (tmp_path / "stamp").exists()


@pytest.mark.parametrize("system", ["Linux", "Darwin"])
def test_elsewhere_it_names_the_packages_of_fedora_and_macos(tmp_path: Path, system: str) -> None:
    env = tools(tmp_path / "bin", uname=f"echo {system}")
    done = set_up("system.sh", "run", tmp_path / "stamp", env=env)
    assert done.returncode == 0
    assert "Rscript" in done.stdout
    assert "sudo dnf install R-core-devel\n" in done.stdout
    assert "brew install r python@3.11\n" in done.stdout
    done = set_up("system.sh", "develop", tmp_path / "stamp", env=env)
    assert "sudo dnf install pandoc qpdf" in done.stdout
    assert not (tmp_path / "stamp").exists()


def test_without_r_its_part_is_left_out(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin") | {"RLIB": str(tmp_path / "rlib")}
    done = set_up("r.sh", env=env)
    assert done.returncode == 0
    assert "R is not installed" in done.stdout
    assert not (tmp_path / "rlib").exists()


def test_a_python_that_is_too_old_or_without_venv_is_named(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin", old='[ "$1" = -c ] && exit 1; echo Python 3.8.1', bare='[ "$1" = -c ]')
    env["VENV"] = str(tmp_path / "venv")
    done = set_up("python.sh", "tensorflow", env=env | {"PYTHON": "old"})
    assert done.returncode == 1
    assert "Python 3.10 to 3.13 is needed, but old is Python 3.8.1" in done.stderr
    done = set_up("python.sh", "tensorflow", env=env | {"PYTHON": "bare"})
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


def test_a_pip_that_fails_ends_the_set_up_with_its_last_lines_and_the_log(tmp_path: Path) -> None:
    fails = 'echo "Collecting tensorflow"; echo "ERROR: No matching distribution" >&2; exit 1'
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text(f"#!/bin/bash\n{fails}\n")
    (venv / "python").chmod(0o755)
    env = tools(tmp_path / "bin", Rscript="exit 1") | {"VENV": str(venv.parent), "PYTHON": "python3"}
    done = set_up("python.sh", "tensorflow", env=env)
    assert done.returncode == 1
    assert done.stdout.startswith("Installing Python packages into .venv with TensorFlow")
    assert "    | ERROR: No matching distribution\n" in done.stderr
    log = tmp_path / "logs" / "python-tensorflow.log"
    assert f"All of it: {log}" in done.stderr
    assert "Collecting tensorflow" in log.read_text()


def what_make_would_do(target: str) -> str:
    """The commands of a target in a clone in which nothing is set up yet."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "-B", "-n", target],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize(
    ("target", "groups"),
    [
        ("train", ["run"]),
        ("test-fast", ["run", "develop"]),
        ("lint", ["run", "develop"]),
        ("test-keras3", ["run", "develop"]),
        ("test-r", ["run", "develop", "test"]),
        ("test-all", ["run", "develop", "test"]),
        ("test-parity", ["run", "develop", "test"]),
        ("test", ["run", "develop", "test"]),
    ],
)
def test_a_target_sets_up_no_more_than_it_needs(target: str, groups: list[str]) -> None:
    assert re.findall(r"scripts/system\.sh (\w+)", what_make_would_do(target)) == groups


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_help_lists_the_targets() -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=30, check=True
    )
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert {"train", "test", "test-fast", "test-all", "test-r", "test-parity"} <= set(listed)
    assert {"test-keras3", "lint", "types", "check", "bench", "accuracy", "matrix", "clean"} <= set(listed)


def test_scripts_are_sound_bash() -> None:
    for script in (*sorted((ROOT / "scripts").glob("*.sh")), ROOT / ".ci" / "run"):
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=10)
