"""The environment of a worker's programs, which prepares every Python that they start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..environment import HASH_SEED, PROCESS_VARIABLE, TF_CONFIG_VARIABLE, given_hash_seed
from ..net.addresses import proxy_exceptions
from .interpreter import with_tfmuster_on_path
from .script_python import r_python

#: The folder whose `sitecustomize` prepares the Pythons of workers.
SITE = Path(__file__).resolve().parent.parent / "worker" / "site"


def worker_environment(environment: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Copy an environment, and prepare it for every Python of a worker, including the one inside R.

    `hosts` are those of the job's tasks, as far as they are known.
    """
    environment = with_tfmuster_on_path(environment, SITE)
    environment |= proxy_exceptions(environment, hosts)
    # Layers and vocabularies made from a set are in its order, which must be that of the other workers.
    environment[HASH_SEED] = given_hash_seed(environment) or "0"
    # The launcher may itself be a worker.
    for name in (PROCESS_VARIABLE, TF_CONFIG_VARIABLE):
        environment.pop(name, None)
    if environment.get("TF_CONFIG"):
        environment[TF_CONFIG_VARIABLE] = environment["TF_CONFIG"]
    # R sources the file that R_TESTS names before any profile, also with --vanilla.
    environment["R_TESTS"] = str(SITE / "startup.R")
    # Lines appear when they are written, and are not lost when the worker is killed.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    # A character that the user's encoding lacks must not end the training of all workers. Whoever names a
    # handler of errors, such as strict, has chosen what happens.
    if (encoding := environment.get("PYTHONIOENCODING")) and ":" not in encoding:
        environment["PYTHONIOENCODING"] = f"{encoding}:backslashreplace"
    # reticulate treats an empty string as a path.
    if not environment.get("RETICULATE_PYTHON"):
        environment["RETICULATE_PYTHON"] = r_python()
    return environment
