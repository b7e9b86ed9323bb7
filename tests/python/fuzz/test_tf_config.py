"""Clusters of any shape are read back as they were written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tfmuster import Cluster, parse_tf_config, tf_config_json
from tfmuster.cluster.tf_config import tf_config_texts

HOSTS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z][a-z0-9]{0,4})?", fullmatch=True)
ADDRESSES = st.lists(
    st.builds("{}:{}".format, HOSTS, st.integers(1, 65535)), min_size=1, max_size=6, unique_by=str.lower
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Clusters of up to six tasks, shared out among the jobs."""
    addresses = draw(ADDRESSES.filter(lambda some: not any("localhost" in each for each in some)))
    jobs: dict[str, list[str]] = {"worker": [addresses[0]]}
    for address in addresses[1:]:
        jobs.setdefault(draw(st.sampled_from(["worker", "ps", "evaluator"])), []).append(address)
    return Cluster(**jobs)


@given(clusters())
def test_every_task_is_read_back(cluster: Cluster) -> None:
    for pretty in (False, True):
        tasks = cluster.tasks()
        texts = list(tf_config_texts(tasks, pretty=pretty))
        assert texts == [tf_config_json(task, pretty=pretty) for task in tasks]
        for task, text in zip(tasks, texts, strict=True):
            document = {"cluster": cluster.to_dict(), "task": task.to_dict()}
            assert text == json.dumps(
                document, indent=2 if pretty else None, separators=None if pretty else (",", ":")
            )
            assert parse_tf_config(text) == task
            assert parse_tf_config(text).cluster.digest == cluster.digest
