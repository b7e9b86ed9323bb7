"""The set-up as a machine without root, without R or without apt sees it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "scripts").exists(), reason="not in a checkout")


def tools(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment whose PATH has a few real tools and pretended ones that do as the scripts say."""
    folder.mkdir(exist_ok=True)
    for name in ("bash", "grep", "touch", "mkdir", "env", "cat", "rm", "dirname"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, script in scripts.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder)}


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
HAVE_NO_QPDF = '[ "${@: -1}" = qpdf ] || echo installed'


def test_nothing_is_asked_of_apt_when_all_is_there(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin", dpkg_query=HAVE_ALL, apt_get="echo apt-get; exit 1", id="echo 0")
    done = set_up("system.sh", tmp_path / "stamp", env=env)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "stamp").exists()


def test_root_installs_what_is_missing_and_no_more(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin", dpkg_query=HAVE_NO_QPDF, apt_get='echo "apt-get $@"', id="echo 0")
    done = set_up("system.sh", tmp_path / "stamp", env=env)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == [
        "apt-get update -q",
        "apt-get install -q -y --no-install-recommends qpdf",
    ]
    assert (tmp_path / "stamp").exists()


@pytest.mark.parametrize(("who", "apt"), [("1000", "exit 0"), ("0", "exit 100")])
def test_without_root_or_without_network_it_says_what_to_install(tmp_path: Path, who: str, apt: str) -> None:
    env = tools(tmp_path / "bin", dpkg_query=HAVE_NO_QPDF, apt_get=apt, id=f"echo {who}")
    done = set_up("system.sh", tmp_path / "stamp", env=env)
    assert done.returncode == 0
    assert "apt-get install qpdf" in done.stdout
    assert not (tmp_path / "stamp").exists()


@pytest.mark.parametrize("system", ["Linux", "Darwin"])
def test_elsewhere_it_names_the_packages_of_fedora_and_macos(tmp_path: Path, system: str) -> None:
    env = tools(tmp_path / "bin", uname=f"echo {system}")
    done = set_up("system.sh", tmp_path / "stamp", env=env)
    assert done.returncode == 0
    assert "Rscript" in done.stdout
    assert "sudo dnf install R-core-devel" in done.stdout
    assert "brew install r" in done.stdout


def test_without_r_its_part_is_left_out(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin") | {"RLIB": str(tmp_path / "rlib")}
    done = set_up("r.sh", env=env)
    assert done.returncode == 0
    assert "R is not installed" in done.stdout
    assert not (tmp_path / "rlib").exists()


def test_a_python_that_is_too_old_or_without_venv_is_named(tmp_path: Path) -> None:
    env = tools(tmp_path / "bin", old='[ "$1" = -c ] && exit 1; echo Python 3.8.1', bare='[ "$1" = -c ]')
    env["VENV"] = str(tmp_path / "venv")
    done = set_up("python.sh", env=env | {"PYTHON": "old"})
    assert done.returncode == 1
    assert "Python 3.10 to 3.12 is needed, but old is Python 3.8.1" in done.stderr
    done = set_up("python.sh", env=env | {"PYTHON": "bare"})
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_help_lists_the_targets() -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=30, check=True
    )
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert {"train", "test", "lint", "types", "check", "bench", "accuracy", "matrix", "clean"} <= set(listed)


def test_scripts_are_sound_bash() -> None:
    for script in (*sorted((ROOT / "scripts").glob("*.sh")), ROOT / ".ci" / "run"):
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=10)
