"""The Python package as a user gets it: sdist, the wheel made from it, an environment with nothing else.

TensorFlow is not downloaded again: an environment gets links to the distributions of this one that the
wheel's own metadata asks for, and to no others. So a dependency that is not declared is missing there, too.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tfmuster.keras_compat import TESTED

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYPROJECT.exists(), reason="not in a checkout"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this checkout, and the wheel that ``python -m build`` makes from it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(build, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def the_wheel(built: Path) -> Path:
    (wheel,) = built.glob("tfmuster-*.whl")
    return wheel


def of_the_package() -> set[str]:
    """The files of the package that git knows or would know."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "python/tfmuster"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {name.removeprefix("python/") for name in listed if (ROOT / name).exists()}


def test_sdist_and_wheel_have_the_whole_package_and_nothing_else(built: Path) -> None:
    files = of_the_package()
    assert {"tfmuster/__init__.py", "tfmuster/py.typed"} <= files
    (sdist,) = built.glob("tfmuster-*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames()}
    beside = {"pyproject.toml", "README.md", "LICENSE", "NEWS.md", "PKG-INFO", ".gitignore"}
    assert inside == {f"python/{name}" for name in files} | beside
    with zipfile.ZipFile(the_wheel(built)) as wheel:
        names = set(wheel.namelist())
    assert {name for name in names if ".dist-info/" not in name} == files
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def of_the_wheel(wheel: Path) -> importlib.metadata.Distribution:
    """The wheel's own metadata; those of this environment are of an editable installation."""
    (found,) = importlib.metadata.distributions(name="tfmuster", path=[str(wheel)])
    return found


def test_the_metadata_says_what_description_says(built: Path) -> None:
    fields = of_the_wheel(the_wheel(built)).metadata
    description = (ROOT / "DESCRIPTION").read_text()
    assert f"\nVersion: {fields['Version']}\n" in description
    name, _, address = fields["Author-email"].rstrip(">").partition(" <")
    assert f'person("{name}"' in description
    assert f'email = "{address}"' in description
    assert fields["License-Expression"] == "Apache-2.0"
    assert {"Homepage", "Issues"} <= {url.split(",")[0] for url in fields.get_all("Project-URL")}


def wanted_by(wheel: Path, *extras: str) -> list[importlib.metadata.Distribution]:
    """What ``pip install "wheel[extras]"`` would bring besides the wheel, in the versions that are here."""
    found = {}
    ahead = [(of_the_wheel(wheel), frozenset(extras))]
    seen = set()
    while ahead:
        distribution, with_extras = ahead.pop()
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if (marker := requirement.marker) and not any(
                marker.evaluate({"extra": extra}) for extra in with_extras or {""}
            ):
                continue
            name = canonicalize_name(requirement.name)
            found[name] = importlib.metadata.distribution(name)
            assert requirement.specifier.contains(found[name].version, prereleases=True), text
            step = name, frozenset(requirement.extras)
            if step not in seen:
                seen.add(step)
                ahead.append((found[name], step[1]))
    return list(found.values())


def test_without_an_extra_pip_brings_no_tensorflow(built: Path) -> None:
    names = {distribution.name.lower() for distribution in wanted_by(the_wheel(built))}
    assert {"click", "numpy"} <= names
    assert not {"tensorflow", "tensorflow-cpu", "keras"} & names
    names = {distribution.name.lower() for distribution in wanted_by(the_wheel(built), "tensorflow")}
    assert {"click", "numpy", "tensorflow", "keras"} <= names


def test_the_bounds_of_tensorflow_and_keras_are_what_is_tested() -> None:
    """From the oldest pair of ``make matrix`` to the newest; Keras's are in the code, too."""
    pairs = re.findall(r'"([\d.]+) ([\d.]+)"', (ROOT / "scripts" / "matrix.sh").read_text())
    assert [minor_of(keras) for _, keras in (pairs[0], pairs[-1])] == list(TESTED)
    (oldest, newest) = (minor_of(tensorflow) for tensorflow, _ in (pairs[0], pairs[-1]))
    extras = re.findall(r'^(tensorflow|cpu|cuda) = \["(.+)", "(.+)"\]$', PYPROJECT.read_text(), re.M)
    assert [name for name, *_ in extras] == ["tensorflow", "cpu", "cuda"]
    for _, tensorflow, keras in extras:
        assert tensorflow.endswith(f">=2.{oldest[1]},<2.{newest[1] + 1}")
        assert keras == f"keras>=3.{TESTED[0][1]},<3.{TESTED[1][1] + 1}"


def minor_of(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def environment(folder: Path, wheel: Path, *extras: str) -> Path:
    """An environment with the wheel and what it asks for; returns its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True, timeout=60)
    (site,) = folder.glob("lib/python*/site-packages")
    for distribution in wanted_by(wheel, *extras):
        for top in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(str(distribution.locate_file(top)))
    return python.parent


def run(program: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TF_CONFIG")}
    return subprocess.run(
        [str(program), *map(str, arguments)],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.cluster
def test_the_wheel_trains_in_an_environment_that_has_only_what_it_asks_for(
    built: Path, tmp_path: Path
) -> None:
    programs = environment(tmp_path / "env", the_wheel(built), "tensorflow")
    where = "import tfmuster, sys; print(tfmuster.__file__); print(sys.path)"
    done = run(programs / "python", "-c", where, cwd=tmp_path)
    assert done.stdout.startswith(str(tmp_path / "env")), done.stdout + done.stderr
    assert str(ROOT) not in done.stdout
    done = run(programs / "tfmuster", "--version", cwd=tmp_path)
    version = the_wheel(built).name.split("-")[1]
    assert (done.returncode, done.stdout) == (0, f"tfmuster {version}\n")
    done = run(programs / "tfmuster", "test", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "You are ready" in done.stdout
