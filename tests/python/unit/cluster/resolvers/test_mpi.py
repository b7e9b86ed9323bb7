"""What is made of MPI's variables."""

from __future__ import annotations

import pytest

from tfmuster.cluster.resolvers import engine_here, gpus_here
from tfmuster.cluster.resolvers.mpi import is_here, rank_of
from tfmuster.cluster.resolvers.mpi_exchange import Rank
from tfmuster.errors import LaunchError

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_FD": "6"}
MVAPICH = {
    "PMI_RANK": "3",
    "PMI_SIZE": "4",
    "MV2_COMM_WORLD_LOCAL_RANK": "1",
    "MV2_COMM_WORLD_LOCAL_SIZE": "2",
}


@pytest.mark.parametrize("environ", [OPEN_MPI, HYDRA, MVAPICH])
def test_the_variables_of_every_mpi(environ: dict[str, str]) -> None:
    assert engine_here(environ) == "MPI"
    assert rank_of(environ) == Rank(3, 4, 1, 2, open_mpi=environ is OPEN_MPI)


def test_who_started_the_process() -> None:
    slurm = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}
    # srun --mpi=pmi2 starts Slurm's own tasks; mpirun inside a job starts others, with Slurm's variables too.
    assert engine_here({**slurm, **HYDRA}) == "Slurm"
    assert engine_here({**slurm, **HYDRA, "PMI_SIZE": "8"}) == "MPI"
    assert engine_here({**slurm, **OPEN_MPI}) == "MPI"
    assert not is_here({})


@pytest.mark.parametrize(
    "wrong",
    [
        {"OMPI_COMM_WORLD_RANK": "4"},
        {"OMPI_COMM_WORLD_RANK": "-1"},
        {"OMPI_COMM_WORLD_RANK": "x"},
        {"OMPI_COMM_WORLD_SIZE": "0"},
        {"OMPI_COMM_WORLD_LOCAL_RANK": "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE": "9"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE": ""},
        {"OMPI_COMM_WORLD_RANK": "³"},
    ],
)
def test_variables_that_make_no_sense_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(LaunchError) as refused:
        rank_of({**OPEN_MPI, **wrong})
    assert refused.value.fields["reason"] == "mpi"


@pytest.mark.parametrize(("gpus", "seen"), [("0,1", "1"), ("4,5,6,7", "6,7"), ("0", None), ("", None)])
def test_ranks_of_a_machine_share_its_gpus(gpus: str, seen: str | None) -> None:
    shared = gpus_here({**OPEN_MPI, "CUDA_VISIBLE_DEVICES": gpus})
    assert shared == ({} if seen is None else {"CUDA_VISIBLE_DEVICES": seen})
