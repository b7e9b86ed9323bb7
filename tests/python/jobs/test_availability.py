"""Which engines the doctor finds usable, with planted programs in place of theirs."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.launching import nothing_left, plant, tfmuster
from tfmuster.launcher.engines.base import BACKENDS, availability

SLURM = dict.fromkeys(("sbatch", "squeue", "scancel", "srun"), "")
PING = 'echo "Slurmctld(primary) at head is UP"'
OPEN_MPI = "echo 'mpirun (Open MPI) 4.1.4'; echo; echo 'Report bugs to ...'"
HYDRA = "echo 'HYDRA build details:'; echo '    Version:                                 4.0.2'"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH; as good as empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "sleep"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))
    for name in ("JAVA_HOME", "TFMUSTER_MPIRUN"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_without_anything_only_this_machine_is_left(planted: Path) -> None:
    said = availability()
    assert list(said) == [*BACKENDS, "kubernetes"]
    assert said.pop("local") == "yes"
    assert all(text.startswith("no: ") for text in said.values())
    assert said["ssh"] == "no: ssh is not on PATH (apt-get install openssh-client)"
    assert "sbatch is not on PATH" in said["slurm"]
    assert said["mpi"] == "no: no mpirun on PATH (apt-get install openmpi-bin)"


@pytest.mark.parametrize(
    ("engine", "programs", "said"),
    [
        ("ssh", {"ssh": "echo 'OpenSSH_9.2p1, OpenSSL 3' >&2"}, "yes: OpenSSH_9.2p1, OpenSSL 3"),
        (
            "slurm",
            {**SLURM, "scontrol": PING},
            "yes: Slurmctld(primary) at head is UP",
        ),
        (
            "slurm",
            {**SLURM, "scontrol": PING.replace("UP", "DOWN") + "; exit 1"},
            "no: sbatch is here, but no controller answers (Slurmctld(primary) at head is DOWN)",
        ),
        ("slurm", {"srun": ""}, "no: sbatch is not on PATH "),
        ("slurm", {"srun": "", "sbatch": ""}, "no: squeue is not on PATH "),
        ("mpi", {"mpirun": OPEN_MPI}, "yes: mpirun (Open MPI) 4.1.4"),
        ("mpi", {"mpiexec": HYDRA}, "yes: MPICH 4.0.2"),
        ("kubernetes", {"kubectl": "exit 1"}, "yes: "),
    ],
)
def test_what_is_found_is_told(engine: str, programs: dict[str, str], said: str, planted: Path) -> None:
    plant(planted, **programs)
    assert availability()[engine].startswith(said)


@pytest.mark.parametrize(
    ("version", "usable"),
    [
        ('openjdk version "17.0.19" 2026', True),
        ('openjdk version "25" 2025', True),
        ('java version "1.8.0_292"', False),
        ('openjdk version "11.0.1"', False),
        ("?", False),
    ],
)
def test_spark_needs_a_java_that_is_new_enough(version: str, usable: bool, planted: Path) -> None:
    pytest.importorskip("pyspark")
    assert "java is not on PATH" in availability()["spark"]
    plant(planted, java=f"echo '{version}' >&2")
    said = availability()["spark"]
    assert said.startswith("yes: pyspark " if usable else "no: pyspark ")
    assert usable or f"needs Java 17 or later, and {planted}/java is {version}" in said


def test_the_java_of_java_home_counts_first(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    home = planted.parent / "java"
    (home / "bin").mkdir(parents=True)
    plant(planted, java="echo 'version \"11\"'")
    plant(home / "bin", java="echo 'version \"21.0.1\"'")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert availability()["spark"].endswith("Java 21")


def test_a_program_that_fails_is_no_engine(planted: Path) -> None:
    plant(planted, mpirun="echo broken; exit 3")
    assert availability()["mpi"] == f"no: {planted}/mpirun --version fails (broken)"


def test_who_does_not_answer_holds_nobody_up(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(planted.parent)
    hang = "sleep 60 & sleep 60"
    plant(planted, ssh=hang, **SLURM, scontrol=hang, mpirun=hang, kubectl="")
    begun = time.monotonic()
    said = availability(timeout=0.5)
    assert in_time(begun, 2)
    for engine in ("ssh", "slurm", "mpi"):
        assert said[engine].removesuffix(")").endswith("does not answer within 0.5 s")
    nothing_left(planted.parent)


def test_a_program_that_can_t_be_started_is_named(planted: Path) -> None:
    (planted / "ssh").write_text("#!/no/such/interpreter\n")
    (planted / "ssh").chmod(0o755)
    assert f"{planted}/ssh -V can't be started: No such file" in availability()["ssh"]


def test_the_doctor_tells_it(tmp_path: Path) -> None:
    done = tfmuster("doctor", "--no-devices", cwd=tmp_path, PATH=os.environ["PATH"])
    assert "engines:\n  local:         yes\n  ssh:           " in done.stdout
