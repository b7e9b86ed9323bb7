"""The Python package as a user gets it: sdist, the wheel made from it, an environment with nothing else.

TensorFlow is not downloaded again: an environment gets links to the distributions of this one that the
wheel's own metadata asks for, and to no others. So a dependency that is not declared is missing there, too.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.paths import ROOT
from tfmuster.system.register import TESTED

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
    beside.add("scripts/compile_libraries.py")
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
    assert [minor_of(keras) for _, keras in (pairs[0], pairs[-1])] == list(TESTED["keras"])
    (oldest, newest) = (minor_of(tensorflow) for tensorflow, _ in (pairs[0], pairs[-1]))
    assert (oldest, newest) == TESTED["tensorflow"]
    extras = re.findall(r'^(tensorflow|cpu|cuda) = \["(.+)", "(.+)", ".+"\]$', PYPROJECT.read_text(), re.M)
    assert [name for name, *_ in extras] == ["tensorflow", "cpu", "cuda"]
    for _, tensorflow, keras in extras:
        assert tensorflow.endswith(f">=2.{oldest[1]},<2.{newest[1] + 1}")
        (first, last) = (minor for _, minor in TESTED["keras"])
        assert keras == f"keras>=3.{first},<3.{last + 1}"


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


def run(
    program: Path, *arguments: object, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TF_CONFIG")}
    variables.update(env or {})
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


def test_a_released_wheel_has_libraries_for_users_without_a_compiler(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", ROOT]
    env = {**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}
    done = subprocess.run(build, capture_output=True, text=True, timeout=250, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = the_wheel(tmp_path / "dist")
    # Where a library does not fit, nothing is lost: it is one wheel for all systems.
    assert wheel.name.endswith("-py3-none-any.whl")
    sources = [name for name in of_the_package() if name.endswith(".c")]
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    assert len(found) == 2 * len(sources) == 4
    machines = {"x86_64": 62, "aarch64": 183}  # as in the header of the file format, ELF
    for name, content in found.items():
        processor = name.removesuffix(".so").rpartition("-")[2]
        assert int.from_bytes(content[18:20], "little") == machines[processor]
        wanted = {tuple(map(int, each.split(b"."))) for each in re.findall(rb"GLIBC_([\d.]+)", content)}
        assert max(wanted) <= (2, 28)
    if platform.machine() not in machines:
        return
    programs = environment(tmp_path / "env", wheel, "tensorflow")
    no_compiler = {"PATH": "/proc/nothing", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for machines in ("000", "0011"):
        program = ROOT / "tests" / "python" / "programs" / "sum_bits.py"
        done = run(programs / "python", program, "--machines", *machines, cwd=tmp_path, env=no_compiler)
        assert done.returncode == 0, done.stderr
    operation = "from tfmuster.collectives import group as g; print(g.library_path(), g._load_operation())"
    done = run(programs / "python", "-c", operation, cwd=tmp_path, env=no_compiler)
    assert str(tmp_path / "env") in done.stdout and "tfmuster_sum" in done.stdout, done.stdout + done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.fixture(scope="module")
def plain(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment as ``pip install tfmuster`` makes it: without TensorFlow."""
    return environment(tmp_path_factory.mktemp("plain") / "env", the_wheel(built))


def says_what_to_install(text: str, programs: Path) -> bool:
    return (
        "TensorFlow is needed here, and is not installed for this Python.\n" in text
        and f"found: no package tensorflow in {programs}" in text
        and "-m pip install 'tfmuster[tensorflow]', or 'tfmuster[cpu]' for" in text
    )


@pytest.mark.parametrize(
    "verb", [("train", "mnist", "--dataset", "synthetic"), ("test",), ("speed", "mnist", "-n", 2)]
)
def test_without_tensorflow_a_verb_that_needs_it_says_what_to_install(
    verb: tuple[object, ...], plain: Path, tmp_path: Path
) -> None:
    done = run(plain / "tfmuster", *verb, cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says_what_to_install(done.stderr, plain)
    assert "Traceback" not in done.stderr


def test_without_tensorflow_everything_else_works(plain: Path, tmp_path: Path) -> None:
    for arguments, expected in (
        (("check", "--worker", "a:1", "--worker", "b:2"), "no findings"),
        (("config", "--worker", "a:1", "--type", "worker", "--index", 0), '{"cluster":{"worker":["a:1"]}'),
        (("launch", "-n", 2, "--all-output", "--", "echo", "hi"), "worker 1 | hi"),
        (("runs", "list"), "-echo  done "),
        (("manifest", "kubernetes", "--image", "me/x:1", "-n", 2, "--", "train.py"), "kind: "),
        (("manifest", "gce", "-n", 2, "--zone", "a", "--source", "https://example.org/x"), "gcloud compute"),
        (("strategies",), "To install TensorFlow: pip install 'tfmuster[tensorflow]'"),
        (("doctor",), "TensorFlow is not installed for this Python. To train here: pip install"),
    ):
        done = run(plain / "tfmuster", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected in done.stdout


def test_without_tensorflow_a_job_that_needs_it_shows_what_to_install(plain: Path, tmp_path: Path) -> None:
    done = run(plain / "tfmuster", "launch", "-n", 2, "--", "tfmuster", "train", "mnist", cwd=tmp_path)
    assert done.returncode == 1
    assert says_what_to_install(done.stderr, plain)


CALLS = """
import json, os, sys, tfmuster

def in_task(kind, *jobs):
    cluster = {job: [f"localhost:{port}"] for port, job in enumerate(jobs, 1)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})

def multi_worker():
    in_task("worker", "worker")
    tfmuster.strategy("multi_worker_mirrored")

def parameter_server():
    in_task("chief", "chief", "ps", "worker")
    tfmuster.strategy("parameter_server")

for call in (
    *(lambda name=name: tfmuster.strategy(name) for name in ("default", "one_device", "mirrored", "tpu")),
    lambda: tfmuster.strategy("central_storage", replicas=2),
    multi_worker,
    parameter_server,
    lambda: tfmuster.mnist_model("cnn"),
    lambda: tfmuster.train_mnist("cnn", dataset="synthetic"),
    lambda: tfmuster.model_from_bytes(b"PK"),
    lambda: tfmuster.distributed_step(None, print),
    lambda: tfmuster.checkpoint_callback("folder"),
):
    os.environ.pop("TF_CONFIG", None)
    try:
        print("returned", call())
    except tfmuster.TfmusterError as error:
        print(error.kind, error.exit_code, error.fields, error.found, error.fix)
"""


def test_without_tensorflow_every_function_that_needs_it_says_so(plain: Path, tmp_path: Path) -> None:
    done = run(plain / "python", "-c", CALLS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 12
    assert {line.split(" no package")[0] for line in told} == {"dependency 2 {'package': 'tensorflow'}"}
    assert all("pip install 'tfmuster[tensorflow]'" in line for line in told)
    # No TensorFlow is needed to have digits: whoever launches may prepare them.
    done = run(
        plain / "python", "-c", "import tfmuster; print(tfmuster.synthetic().x_train.shape)", cwd=tmp_path
    )
    assert done.stdout.startswith("(")
