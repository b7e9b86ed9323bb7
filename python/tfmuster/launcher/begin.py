"""Make the run of a job, or record the next attempt in it."""

from __future__ import annotations

from ..cluster.spec import Cluster
from ..tracking.lifecycle.beginning import new_run
from ..tracking.record.recording import record_info
from ..tracking.run import Run
from .job import Job
from .supervise.restarts import Attempt


def begin_run(job: Job, attempt: Attempt, cluster: Cluster) -> Run:
    """Return the run of a job, which its first attempt makes."""
    if attempt.run is None:
        run_dir = new_run(
            job.run_name(),
            run_dir=job.run_dir,
            command=job.command,
            cluster=cluster.to_dict(),
            job=attempt.name,
            seed=job.seed,
            settings=job.settings(),
        )
        run = Run(run_dir)
        job.record(run)
        return run
    info = attempt.run.info()
    clusters = [*info.get("clusters", [info["cluster"]]), cluster.to_dict()]
    # Hosts may have been lost, or have come back.
    record_info(
        attempt.run.path, {**info, "cluster": cluster.to_dict(), "clusters": clusters, "job": attempt.name}
    )
    return attempt.run
