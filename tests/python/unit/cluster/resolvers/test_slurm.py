"""Slurm's variables and what is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.node_lists import NODE_LISTS
from tfmuster import Cluster, tf_config_json
from tfmuster.cluster.resolvers import engine_here, gpus_here, resolve_task
from tfmuster.cluster.resolvers.slurm import expand_counts, expand_nodes, place_ranks
from tfmuster.errors import LaunchError


def step(rank: int, nodes: str, counts: str, **more: str) -> dict[str, str]:
    """What srun gives the task of a rank that block distribution has placed."""
    each = expand_counts(counts)
    node, local = list(place_ranks(each, "block", 1))[rank]
    return {
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": counts,
        "SLURM_STEP_NUM_TASKS": str(sum(each)),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "SLURM_NODEID": str(node),
        "SLURMD_NODENAME": expand_nodes(nodes)[node],
        **more,
    }


@pytest.mark.parametrize(("text", "nodes"), NODE_LISTS.items())
def test_node_lists_are_expanded_in_their_own_order(text: str, nodes: list[str]) -> None:
    assert expand_nodes(text) == nodes


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "a,", "a[", "a]", "a[1", "a[]", "a[1-]", "a[2-1]", "a[x]", "a[[1]]", "a,,b"),
        *("a[0-99999999999]", "n[0-999]x[0-999]"),
    ],
)
def test_what_is_no_node_list_is_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        expand_nodes(text)


@given(st.text("ab01-[],", max_size=12))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        assert all(expand_nodes(text))
    except LaunchError as error:
        assert error.fields["reason"] == "slurm"


def test_tasks_per_node() -> None:
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]
    assert expand_counts("16") == [16]
    for text in ("", "x", "2(x)", "2(3)", "1,", "2(x9999999)"):
        with pytest.raises(LaunchError):
            expand_counts(text)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from(["block", "cyclic", "plane", ""]))
def test_every_task_has_a_place_of_its_own(counts: list[int], distribution: str) -> None:
    places = list(place_ranks(counts, distribution, 2))
    assert sorted(places) == [(node, at) for node, count in enumerate(counts) for at in range(count)]


@pytest.mark.parametrize(
    ("distribution", "nodes"),
    [
        ("", [0, 0, 0, 1, 1, 2]),
        ("block:cyclic", [0, 0, 0, 1, 1, 2]),
        ("cyclic,NoPack", [0, 1, 2, 0, 1, 0]),
        ("plane=2", [0, 0, 1, 1, 2, 0]),
    ],
)
def test_ranks_are_where_srun_puts_them(distribution: str, nodes: list[int]) -> None:
    assert [node for node, _ in place_ranks([3, 2, 1], distribution, 2)] == nodes


def test_the_cluster_is_in_rank_order_with_a_port_for_each_task_of_a_node() -> None:
    task = resolve_task(step(5, "vn[1-2,9-10]", "2(x3),1"), base_port=5000)
    assert task is not None
    assert (task.name, task.address) == ("worker 5", "vn9:5001")
    assert task.cluster.worker == (
        *("vn1:5000", "vn1:5001", "vn2:5000", "vn2:5001", "vn9:5000", "vn9:5001", "vn10:5000"),
    )


def test_the_port_is_the_option_s_the_variable_s_or_the_job_s_own() -> None:
    told = step(0, "vn[1-2]", "1(x2)", TFMUSTER_BASE_PORT="6000")
    assert [resolve_task(told, base_port=port).address for port in (7000, None)] == ["vn1:7000", "vn1:6000"]  # type: ignore[union-attr]
    ports = set()
    for job in range(100):
        task = resolve_task(step(0, "vn[1-2]", "1(x2)", SLURM_JOB_ID=str(job)))
        assert task is not None
        ports.add(int(task.address.rpartition(":")[2]))
    assert len(ports) == 100
    assert min(ports) >= 20_000
    assert max(ports) < 32_768 - 64
    for wrong in ("80", "70000", "x", "2³"):
        with pytest.raises(LaunchError) as refused:
            resolve_task(step(0, "vn[1-2]", "1(x2)", TFMUSTER_BASE_PORT=wrong))
        assert refused.value.fields["reason"] == "base-port"


def test_tf_config_counts_first() -> None:
    told = Cluster(worker=["a:1", "b:1"]).task("worker", 1)
    assert resolve_task(step(0, "vn[1-2]", "1(x2)", TF_CONFIG=tf_config_json(told))) == told
    assert resolve_task(step(0, "vn1", "1", TF_CONFIG="{}")) is not None


def test_a_batch_script_is_no_task() -> None:
    script = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    assert resolve_task(script) is None
    assert engine_here(script) is None
    assert resolve_task({}) is None
    assert engine_here(step(0, "vn1", "1")) == "Slurm"


@pytest.mark.parametrize(
    "wrong",
    [
        {"SLURM_STEP_NUM_TASKS": "5"},
        {"SLURM_STEP_TASKS_PER_NODE": "2"},
        {"SLURM_PROCID": "4"},
        {"SLURM_PROCID": "-1"},
        {"SLURM_LOCALID": "0"},
        {"SLURMD_NODENAME": "vn1"},
        {"SLURM_STEP_NUM_TASKS": ""},
        {"SLURM_STEP_NODELIST": "vn[1"},
        {"SLURM_JOB_ID": "x"},
    ],
)
def test_variables_that_contradict_each_other_are_refused(wrong: dict[str, str]) -> None:
    right = step(3, "vn[1-2]", "2(x2)")
    assert resolve_task(right) is not None
    with pytest.raises(LaunchError) as refused:
        resolve_task({**right, **wrong})
    assert refused.value.fields["reason"] == "slurm"


@pytest.mark.parametrize(
    ("rank", "more", "seen"),
    [
        (0, {"CUDA_VISIBLE_DEVICES": "0,1"}, "0"),
        (1, {"CUDA_VISIBLE_DEVICES": "0,1"}, "1"),
        (1, {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLURM_GPUS_ON_NODE": "4"}, "2,3"),
        (1, {"CUDA_VISIBLE_DEVICES": "0,1,2", "SLURM_GPUS_ON_NODE": "3"}, "1"),
        # Slurm has chosen already, or there are not enough, or none.
        (1, {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_GPUS_PER_TASK": "2"}, None),
        (1, {"CUDA_VISIBLE_DEVICES": "2,3", "SLURM_GPUS_ON_NODE": "4"}, None),
        (1, {"CUDA_VISIBLE_DEVICES": "0"}, None),
        (1, {}, None),
        (2, {"CUDA_VISIBLE_DEVICES": "0,1"}, None),
    ],
)
def test_tasks_of_a_node_share_its_gpus(rank: int, more: dict[str, str], seen: str | None) -> None:
    shared = gpus_here(step(rank, "vn[1-2]", "2,1", **more))
    assert shared == ({} if seen is None else {"CUDA_VISIBLE_DEVICES": seen})
