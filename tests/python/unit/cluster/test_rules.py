"""Bad clusters of every kind: the right findings, each at its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cluster_reports import check_form
from support.paths import DATA
from tfmuster import Cluster, check_cluster
from tfmuster.cluster.check import Report
from tfmuster.cluster.findings import KINDS, Finding
from tfmuster.cluster.tf_config import parse_tf_config
from tfmuster.errors import ClusterError

BAD = json.loads((DATA / "bad_clusters.json").read_text(encoding="utf-8"))
GOOD_TASK = {"type": "worker", "index": 0}


def look(kind: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Check one row of the table, the way its kind says."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if kind == "address":
        return check_cluster(worker=[value])
    if kind == "tf_config":
        return read(value)
    if kind == "yaml":
        return check_cluster(value)
    if kind == "hex":
        return read(bytes.fromhex(value))
    assert kind == "arguments"
    return check_cluster(**value)


def read(text: str | bytes) -> Report:
    """The findings of a TF_CONFIG, taken from the error that the parser raises."""
    try:
        parse_tf_config(text)
    except ClusterError as error:
        return Report(tuple(Finding(**each) for each in error.fields["findings"]))
    return Report(())


def test_the_table_is_large_and_names_every_code_it_can() -> None:
    assert len(BAD) >= 200
    seen = {code for row in BAD for code in row["codes"]}
    elsewhere = {
        "document-too-large",
        "more-findings",
        "too-many-tasks",
        "too-deep",
        "too-long-for-environment",
        "index-as-text",
        "name-not-found",
        "not-reachable",
        "nothing-listens",
    }
    assert set(KINDS) - seen <= elsewhere


@pytest.mark.parametrize("row", BAD, ids=lambda row: f"{row['as']}-{str(row['input'])[:40]!a}")
def test_bad_input(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    report = look(row["as"], row["input"], monkeypatch)
    assert sorted(finding.code for finding in report.findings) == sorted(row["codes"])
    assert not report.ok
    check_form(report)


# No environment variable can hold a NUL.
IN_ENVIRONMENT = [row["input"] for row in BAD if row["as"] == "tf_config" and "\x00" not in row["input"]]


@pytest.mark.parametrize("text", IN_ENVIRONMENT, ids=lambda text: ascii(text[:40]))
def test_the_environment_and_the_parser_agree(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    assert check_cluster().findings == read(text).findings


@pytest.mark.parametrize(
    "row", [row for row in BAD if row["as"] == "address"], ids=lambda row: ascii(row["input"])[:40]
)
def test_cluster_raises_what_the_check_finds(row: dict[str, Any]) -> None:
    for arguments in ({"worker": [row["input"]]}, {"worker": ["ok:1"], "ps": [row["input"], "ok:2"]}):
        with pytest.raises(ClusterError) as raised:
            Cluster(**arguments)
        assert raised.value.fields["findings"] == check_cluster(**arguments).to_dict()["findings"]


@pytest.mark.parametrize(
    "address",
    [
        "a:1",
        "A-b_c.example.org.:65535",
        "node-1:2222",
        "tf_worker_1:2222",
        "10.0.0.1:80",
        "255.255.255.255:1",
        "[2001:db8::1]:2222",
        "[::ffff:10.0.0.1]:2222",
        "localhost:2222",
        "xn--mnchen-3ya.example:2222",
        "1a:1",
        "a1.2b:1",
        "a" * 63 + ":1",
        ".".join(["a" * 62] * 4) + ":1",
        "job-0.svc.ns.svc.cluster.local:2222",
    ],
)
def test_good_addresses(address: str) -> None:
    report = check_cluster(worker=[address])
    assert report.findings == ()
    assert report.cluster == Cluster(worker=[address])


def test_every_finding_at_once_each_at_its_place() -> None:
    text = """{"cluster": {"worker": ["http://a:1", "b", "c:1", "C:1"], "boss": ["d:1"], "ps": []},
               "task": {"type": "chief", "index": "-1"}, "x": 1}"""
    assert [(f.code, f.where, f.value) for f in check_cluster(text).findings] == [
        ("unknown-key", "document", "x"),
        ("unknown-job", "cluster", "boss"),
        ("empty-job", "cluster.ps", "[]"),
        ("scheme-in-address", "cluster.worker[0]", "http://a:1"),
        ("port-missing", "cluster.worker[1]", "b"),
        ("duplicate-address", "cluster.worker[3]", "C:1"),
        ("type-not-in-cluster", "task.type", "chief"),
        ("index-negative", "task.index", "-1"),
    ]


def test_repaired_things_are_warnings() -> None:
    report = check_cluster('{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": "0"}}')
    assert [f.code for f in report.warnings] == ["lone-address", "index-as-text"]
    assert report.ok
    assert report.task == Cluster(worker=["a:1"]).task("worker", 0)


def test_what_tensorflow_and_kubeflow_put_in_is_accepted_silently() -> None:
    document = {
        "cluster": {"worker": ["a:1"]},
        "task": GOOD_TASK,
        "environment": "cloud",
        "rpc_layer": "grpc",
    }
    assert check_cluster(document).findings == ()
    document["task"] = {**GOOD_TASK, "trial": "1"}
    assert check_cluster({**document, "job": {}, "session_master": "a"}).findings == ()


def test_a_long_tf_config_is_a_warning() -> None:
    addresses = [f"node-{i}.example.org:2222" for i in range(6000)]
    assert [f.code for f in check_cluster(worker=addresses).findings] == ["too-long-for-environment"]
    assert check_cluster(worker=addresses).ok
