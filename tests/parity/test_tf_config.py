"""TF_CONFIG from R: Python's bytes, and jsonlite's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from clusters import CASES, Case
from tfmuster import Cluster, parse_tf_config, tf_config_json


def test_there_are_enough_different_clusters() -> None:
    assert len({json.dumps(case) for case in CASES}) >= 300


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_r_python_and_jsonlite_write_the_same_bytes(r: Callable[..., Any], case: Case) -> None:
    jobs = json.dumps(case.jobs)
    cluster = Cluster(**case.jobs)
    text = tf_config_json(cluster.task(case.type, case.index))
    assert r("tf_config_from_r", jobs, case.type, case.index) == text
    assert r("tf_config_from_jsonlite", jobs, case.type, case.index) == text
    assert r("reads_back", text, jobs, case.type, case.index)
    assert r("digest_from_r", jobs) == cluster.digest
    assert parse_tf_config(text) == cluster.task(case.type, case.index)
