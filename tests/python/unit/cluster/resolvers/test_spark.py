"""TF_CONFIG from what a task of Spark's barrier stage is told, recorded from Spark 4.3."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tfmuster
from tfmuster.errors import ClusterError

#: Of local[3] and local-cluster[3,1,1024]; the last is made up in their form, for three machines.
RECORDED: dict[str, list[str]] = {
    "local": ["192.0.2.2:33309"] * 3,
    "local-cluster": ["192.0.2.2:59756", "192.0.2.2:38376", "192.0.2.2:59748"],
    "three machines": ["10.78.0.1:41231", "10.78.0.2:40987", "10.78.0.3:33333"],
}


@pytest.mark.parametrize("mode", RECORDED)
@pytest.mark.parametrize("partition", [0, 2])
def test_as_the_document_does_it(mode: str, partition: int) -> None:
    barrier = {"address": RECORDED[mode], "partition": partition}
    config = json.loads(tfmuster.tf_config_from_barrier(barrier))
    hosts = [address.split(":")[0] for address in RECORDED[mode]]
    assert config == {
        "cluster": {"worker": [f"{host}:{8001 + number}" for number, host in enumerate(hosts)]},
        "task": {"type": "worker", "index": partition},
    }


@pytest.mark.parametrize("address", ["10.0.0.5:41231", ["10.0.0.5:41231"], ("10.0.0.5",)])
def test_one_worker_is_a_list(address: Any) -> None:
    text = tfmuster.tf_config_from_barrier({"address": address, "partition": 0.0}, 9000)
    assert text == '{"cluster":{"worker":["10.0.0.5:9001"]},"task":{"type":"worker","index":0}}'


def test_addresses_of_ipv6() -> None:
    text = tfmuster.tf_config_from_barrier({"address": ["[fd00::2]:41231", "[fd00::3]"], "partition": 1})
    assert json.loads(text)["cluster"]["worker"] == ["[fd00::2]:8001", "[fd00::3]:8002"]


@pytest.mark.parametrize(
    "barrier",
    [
        {},
        None,
        {"address": [], "partition": 0},
        {"address": ["a:1"]},
        {"address": ["a:1"], "partition": "0"},
        {"address": ["a:1"], "partition": 0.5},
        {"address": ["a:1"], "partition": True},
        {"address": [1, 2], "partition": 0},
    ],
)
def test_what_is_no_barrier(barrier: Any) -> None:
    with pytest.raises(ClusterError, match="barrier must be what spark_apply"):
        tfmuster.tf_config_from_barrier(barrier)


@pytest.mark.parametrize(
    ("barrier", "port"),
    [({"address": ["a:1"], "partition": 1}, 8000), ({"address": ["a:1", "b:1"], "partition": 0}, 65534)],
)
def test_what_is_no_cluster(barrier: Any, port: int) -> None:
    with pytest.raises(ClusterError):
        tfmuster.tf_config_from_barrier(barrier, port)
