"""Node lists against what Slurm's own command makes of them; no cluster runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.node_lists import NODE_LISTS
from tfmuster.cluster.resolvers.slurm import expand_nodes

names = st.text("abcn-", min_size=1, max_size=4).map(lambda text: "n" + text)
widths = st.integers(1, 4)
ranges = st.tuples(st.integers(0, 400), st.integers(0, 12), widths).map(
    lambda r: f"{r[0]:0{r[2]}}-{r[0] + r[1]:0{r[2]}}"
)
brackets = st.lists(ranges | st.integers(0, 99).map(str), min_size=1, max_size=3).map(
    lambda pieces: f"[{','.join(pieces)}]"
)
entries = st.tuples(names, st.lists(brackets, max_size=2)).map(lambda parts: "x".join([parts[0], *parts[1]]))


@pytest.mark.skipif(not shutil.which("scontrol"), reason="needs scontrol (slurm-client)")
@settings(max_examples=60, deadline=None)
@given(st.lists(entries, min_size=1, max_size=3).map(",".join))
def test_node_lists_are_expanded_as_slurm_does(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assert expand_nodes(text) == hostnames(text, tmp_path_factory.getbasetemp())


@pytest.mark.skipif(not shutil.which("scontrol"), reason="needs scontrol (slurm-client)")
@pytest.mark.parametrize("text", NODE_LISTS)
def test_the_table_is_what_slurm_says(tmp_path: Path, text: str) -> None:
    assert hostnames(text, tmp_path) == NODE_LISTS[text]


def hostnames(text: str, folder: Path) -> list[str]:
    """What ``scontrol show hostnames`` makes of a list; it wants some configuration, but no cluster."""
    configuration = folder / "slurm.conf"
    configuration.write_text("ClusterName=none\nSlurmctldHost=localhost\nNodeName=localhost\n")
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        env={**os.environ, "SLURM_CONF": str(configuration)},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout.split()
