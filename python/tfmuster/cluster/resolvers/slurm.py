"""Find the task of a process of a Slurm job step, from the variables that ``srun`` sets.

Slurm's ranks become the indices of the workers, and its node names their hosts. srun(1) describes the
variables under "OUTPUT ENVIRONMENT VARIABLES".
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from ...errors import LaunchError
from ...system.gpus import VISIBLE, visible_gpus
from ..spec import Cluster, Task
from .batch import BatchSystem, port_of_job, share_of_gpus, whole_number

#: More nodes than any cluster has. A range such as ``n[0-999999999]`` must not fill the memory.
_MOST_NODES = 100_000
_COUNT = re.compile(r"([0-9]{1,7})(?:\(x([0-9]{1,7})\))?", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_PART = re.compile(r"[^\[\],]+|\[[^\[\]]*\]")


class Slurm(BatchSystem):
    """Slurm, whose jobs are allocations."""

    BACKEND, NAME = "slurm", "Slurm"
    JOB, STOP = "SLURM_JOB_ID", "scancel"


SLURM = Slurm()
NAME, batch_job = SLURM.NAME, SLURM.batch_job


def is_here(environ: Mapping[str, str]) -> bool:
    """Tell whether ``srun`` has started this process as a task. A batch script itself is not a task."""
    return all(name in environ for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID"))


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """Find the task that ``SLURM_PROCID`` names in the cluster of its job step. Raises LaunchError.

    By default, the base port depends on the job step, so that jobs on one node use different ports.
    """
    nodes = expand_nodes(_value(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"))
    counts = expand_counts(_value(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    size = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    rank = _number(environ, "SLURM_PROCID")
    if len(nodes) != len(counts) or sum(counts) != size or rank >= size:
        raise _contradiction(
            f"{len(nodes)} nodes, tasks per node {','.join(map(str, counts))}, {size} tasks, rank {rank}"
        )
    plane = whole_number(environ.get("SLURM_DIST_PLANESIZE", ""), _MOST_NODES, least=1) or 1
    places = list(place_ranks(counts, environ.get("SLURM_DISTRIBUTION", ""), plane))
    node, local = places[rank]
    name = environ.get("SLURMD_NODENAME", nodes[node])
    if name != nodes[node] or _number(environ, "SLURM_LOCALID") != local:
        raise _contradiction(
            f"rank {rank} is task {environ.get('SLURM_LOCALID')} of {name}, and would be task {local} of "
            f"{nodes[node]} by SLURM_DISTRIBUTION={environ.get('SLURM_DISTRIBUTION', '')!r}"
        )
    if base_port is None:
        base_port = port_of_job(7 * _number(environ, "SLURM_JOB_ID") + _number(environ, "SLURM_STEP_ID"))
    return Cluster(worker=[f"{nodes[at]}:{base_port + place}" for at, place in places]).task("worker", rank)


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a task's share of its node's GPUs, if Slurm shows all of them to every task of the node."""
    visible = visible_gpus({VISIBLE: environ.get(VISIBLE, "")})
    counts = expand_counts(_value(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    if any(name in environ for name in ("SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND")):
        return {}
    if environ.get("SLURM_GPUS_ON_NODE", str(len(visible))) != str(len(visible)):
        return {}  # Slurm has chosen GPUs of the node for this task
    tasks = counts[int(environ.get("SLURM_NODEID", 0))]
    return share_of_gpus(visible, tasks, _number(environ, "SLURM_LOCALID"))


def expand_nodes(text: str) -> list[str]:
    """Expand a node list such as ``vn[1-2,9-10],gpu[01-03]``, in the ranks' order. Raises LaunchError."""
    nodes: list[str] = []
    for entry in _entries(text):
        choices = [list(_choices(part, text)) for part in _PART.findall(entry)]
        if len(nodes) + math.prod(map(len, choices)) > _MOST_NODES:
            raise _bad_list(text)
        nodes += map("".join, itertools.product(*choices))
    return nodes


def expand_counts(text: str) -> list[int]:
    """Expand the number of tasks of each node, such as ``2(x3),1``. Raises LaunchError for other texts."""
    counts: list[int] = []
    for entry in text.split(","):
        match = _COUNT.fullmatch(entry)
        if match is None or len(counts) + int(match[2] or 1) > _MOST_NODES:
            raise _contradiction(f"tasks per node {text[:200]!r}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def place_ranks(counts: Sequence[int], distribution: str, plane: int) -> Iterator[tuple[int, int]]:
    """Yield for each rank the number of its node, and its number among the tasks of that node.

    ``SLURM_DISTRIBUTION`` is ``block`` (the default), which fills one node after another, ``cyclic``, which
    gives each node a task in turn, or ``plane``, which gives each `plane` tasks in turn. Text after a colon
    or a comma concerns cores and is ignored.
    """
    kind = re.split("[:,=]", distribution)[0]
    at_once = {"cyclic": 1, "plane": plane}.get(kind, max(counts, default=1))
    placed = [0] * len(counts)
    while any(have < want for have, want in zip(placed, counts, strict=True)):
        for node, want in enumerate(counts):
            for _ in range(min(at_once, want - placed[node])):
                yield node, placed[node]
                placed[node] += 1


def _entries(text: str) -> Iterator[str]:
    """Split a text at the commas that are outside brackets."""
    depth, begin = 0, 0
    for at, character in enumerate(text + ","):
        if character in "[]":
            depth += 1 if character == "[" else -1
        if depth not in (0, 1):
            raise _bad_list(text)
        if character == "," and depth == 0:
            if begin == at:
                raise _bad_list(text)
            yield text[begin:at]
            begin = at + 1
    if depth:
        raise _bad_list(text)


def _choices(part: str, text: str) -> Iterator[str]:
    """Yield the texts that a part of a name stands for: itself, or the numbers in brackets."""
    if not part.startswith("["):
        yield part
        return
    for piece in part[1:-1].split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise _bad_list(text)
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + _MOST_NODES:
            raise _bad_list(text)
        # Leading zeros of the first number set the number of digits for all.
        yield from (f"{number:0{len(match[1])}}" for number in range(first, last + 1))


def _value(environ: Mapping[str, str], *names: str) -> str:
    for name in names:
        if value := environ.get(name, "").strip():
            return value
    raise LaunchError(
        "A Slurm task must find its job step in its environment.",
        found=f"no {' or '.join(names)}",
        fix="Start it with srun.",
        reason="slurm",
    )


def _number(environ: Mapping[str, str], *names: str) -> int:
    value = _value(environ, *names)
    if (number := whole_number(value, 10**17)) is None:
        raise _contradiction(f"{' or '.join(names)} is {value[:80]!r}")
    return number


def _bad_list(text: str) -> LaunchError:
    return _contradiction(f"node list {text[:200]!r}")


def _contradiction(found: str) -> LaunchError:
    return LaunchError(
        "Slurm's variables must say on which node each task runs.",
        found=found,
        fix="Let srun place the tasks by block, cyclic or plane (srun --distribution=block).",
        reason="slurm",
    )
