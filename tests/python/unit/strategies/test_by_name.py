"""What is refused before TensorFlow is imported."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tfmuster
from support.jobs import cluster_of_one
from tfmuster.errors import StrategyError
from tfmuster.words import speaking


def test_unknown_name() -> None:
    with pytest.raises(StrategyError, match="There is no strategy 'mirrord'") as caught:
        tfmuster.strategy("mirrord")
    assert caught.value.fields == {"strategy": "mirrord", "reason": "unknown-strategy"}
    assert caught.value.fix is not None and caught.value.fix.startswith("Did you mean 'mirrored'? ")
    assert "multi_worker_mirrored" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("default", {"devices": ["CPU:0"]}),
        ("one_device", {"replicas": 2}),
        ("mirrored", {"tpu": "x"}),
        ("mirrored", {"start_timeout": 3}),
        ("multi_worker_mirrored", {"replicas": 2}),
    ],
)
def test_argument_without_meaning(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(StrategyError, match="does not apply to the strategy") as caught:
        tfmuster.strategy(name, **arguments)
    assert caught.value.fields["reason"] == "unused-argument"


@pytest.mark.parametrize("name", ["multi_worker_mirrored", "parameter_server"])
def test_no_cluster(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("TFMUSTER_STRICT", "1")
    with pytest.raises(StrategyError, match="TF_CONFIG is not set") as caught:
        tfmuster.strategy(name)
    assert caught.value.fields["reason"] == "no-tf-config"
    options = "-n 2 --ps 1" if name == "parameter_server" else "-n 2"
    assert f"start the program with `tfmuster launch {options} SCRIPT`" in str(caught.value)
    hints = caught.value.to_dict()["hints"]
    assert [hint["option"] for hint in hints] == ["workers", "ps"][: 1 + (name == "parameter_server")]
    with speaking("r"), pytest.raises(StrategyError, match=r"launch\(script, workers = 2"):
        tfmuster.strategy(name)


def test_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", cluster_of_one())
    with pytest.raises(StrategyError, match="communication must be one of auto, tcp, tensorflow, ring, nccl"):
        tfmuster.strategy("multi_worker_mirrored", communication="gloo")
    monkeypatch.setenv("TFMUSTER_COMMUNICATION", "gloo")
    with pytest.raises(StrategyError, match="'gloo' in TFMUSTER_COMMUNICATION"):
        tfmuster.strategy("multi_worker_mirrored")


def test_wrong_tf_config_is_named_before_tensorflow_hangs_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"cluster":{"worker":["a:1","b:0"]},"task":{"type":"worker","index":2}}')
    with pytest.raises(tfmuster.errors.ClusterError) as caught:
        tfmuster.strategy("multi_worker_mirrored")
    assert {finding["where"] for finding in caught.value.fields["findings"]} == {
        "cluster.worker[1]",
        "task.index",
    }


def test_a_parameter_server_has_no_part_in_multi_worker_mirrored(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(StrategyError, match="Only chief and worker tasks") as caught:
        tfmuster.strategy("multi_worker_mirrored")
    assert caught.value.fields["reason"] == "task-type"


def test_parameter_servers_need_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(StrategyError, match="at least one worker and one ps") as caught:
        tfmuster.strategy("parameter_server")
    assert caught.value.fields["reason"] == "jobs"
