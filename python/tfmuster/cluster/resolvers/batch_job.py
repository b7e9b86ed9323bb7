"""Describe a batch job as its batch system identifies it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchJob:
    """A job of a batch system such as Slurm.

    Attributes
    ----------
    system : str
        The name of the backend, such as ``slurm``.
    number : str
        The identifier of the job in its batch system.
    stop : tuple of str
        The command that ends the job, from any machine of the cluster.
    """

    system: str
    number: str
    stop: tuple[str, ...]
