"""Bad input of every kind: the right findings, never a traceback, never over a second."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tfmuster import Cluster, check_cluster
from tfmuster.cluster.check import Report
from tfmuster.cluster.documents import LARGEST_DOCUMENT
from tfmuster.cluster.findings import KINDS, MOST_FINDINGS, Finding
from tfmuster.cluster.tf_config import parse_tf_config, tf_config_json
from tfmuster.errors import ClusterError

ROOT = Path(__file__).parents[2]
BAD = json.loads((Path(__file__).parent / "data" / "bad_clusters.json").read_text(encoding="utf-8"))
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


def check_form(report: Report) -> None:
    """What holds for every report: bounded, printable, with a fix."""
    for finding in report.findings:
        assert finding.severity == KINDS[finding.code].severity
        assert len(finding.value) <= 80
        assert finding.value.isprintable()
        assert finding.where.isprintable()
        assert finding.message.isprintable()
        assert finding.fix.isprintable()
        assert finding.fix
    assert len(report.findings) <= MOST_FINDINGS + 1
    assert report.ok == (report.cluster is not None)
    str(report)
    json.dumps(report.to_dict())


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


def test_json_errors_have_line_and_column() -> None:
    (finding,) = check_cluster('{"cluster": {\n  "worker": ["a:1",\n    NaN]}}').findings
    assert (finding.code, finding.where) == ("not-json", "line 3, column 5")
    (finding,) = check_cluster("worker:\n  - a:1\n  - [::1]:2\n").findings
    assert (finding.code, finding.where) == ("not-yaml", "line 3, column 6")


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


def test_a_file_needs_no_task_and_arguments_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"cluster": {"worker": ["a:1", "b:1"]}}')
    assert check_cluster(path).findings == ()
    assert check_cluster(str(path), type="worker", index=1).task == Cluster(worker=["a:1", "b:1"]).task(
        "worker", 1
    )
    path.write_text('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "ps", "index": 7}}')
    assert [f.code for f in check_cluster(path).findings] == ["type-not-in-cluster"]
    assert check_cluster(path, type="worker", index=0).findings == ()


def test_a_cluster_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    path.write_bytes(b'\xef\xbb\xbf{"worker": ["a:1"]}')
    cluster = Cluster(worker=["a:1"])
    assert check_cluster(path).cluster == cluster
    assert check_cluster(cluster).cluster == cluster


def test_a_long_tf_config_is_a_warning() -> None:
    addresses = [f"node-{i}.example.org:2222" for i in range(6000)]
    assert [f.code for f in check_cluster(worker=addresses).findings] == ["too-long-for-environment"]
    assert check_cluster(worker=addresses).ok


MEBI = 1 << 20
BOMBS = {
    "brackets": ("[" * (60 * MEBI), "document-too-large"),
    "deep brackets": ("[" * 5000 + "]" * 5000, "too-deep"),
    "objects": ('{"a":' * 900_000, "too-deep"),
    "deep cluster": ('{"cluster":' + "[" * 1000 + "]" * 1000 + "}", "cluster-not-object"),
    "deep address": ('{"cluster":{"worker":[' + "[" * 900 + "]" * 900 + "]}}", "address-not-text"),
    "deep duplicate": ('{"a":1,"a":' + "[" * 1000 + "]" * 1000 + "}", None),
    "one long address": ('{"cluster":{"worker":["' + "a" * (60 * MEBI) + ':1"]}}', "address-too-long"),
    "many addresses": ('{"cluster":{"worker":[' + '"a:1",' * 900_000 + "0]}}", "too-many-tasks"),
    "too many values": ("[" + "0," * (30 * MEBI) + "0]", "document-too-large"),
    "bad addresses": ('{"cluster":{"worker":[' + '"a b",' * 90_000 + "0]}}", "more-findings"),
    "duplicates": ('{"cluster":{"worker":[' + '"a:1",' * 90_000 + '"a:1"]}}', "more-findings"),
    "unknown jobs": (json.dumps({"cluster": {str(i): 1 for i in range(500_000)}}), "more-findings"),
    "duplicate keys": ('{"cluster":{' + '"a":1,' * 500_000 + '"a":1}}', "duplicate-key"),
    "huge number": ('{"cluster":' + "1" * (30 * MEBI) + "}", None),
    "blanks": (" " * (60 * MEBI) + "{", "not-json"),
    "line breaks": ("\n" * (60 * MEBI) + "{", "not-json"),
    "too large": ('"' + "a" * LARGEST_DOCUMENT + '"', "document-too-large"),
    "yaml brackets": ("a:\n " + "[" * (MEBI - 10), "too-deep"),
    "yaml dashes": ("- " * 500_000 + "\n", "too-deep"),
    "yaml keys": ("\n".join(f"{i}: 1" for i in range(90_000)), "more-findings"),
    "yaml number": ("worker: " + "1" * (MEBI - 100) + "\n", "lone-address"),
    "yaml aliases": (
        "a: &a [x]\n"
        + "".join(f"{b}: &{b} [*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "yaml-alias",
    ),
    "yaml too large": ("\n- a:1" * 300_000, "document-too-large"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_go_off_within_a_second(name: str) -> None:
    text, code = BOMBS[name]
    # Processor time, so that a busy machine doesn't fail the test.
    start = time.process_time()
    report = check_cluster(text, type="worker", index=0) if text[0] in "{[\n" else check_cluster("\n" + text)
    assert time.process_time() - start < 1.0
    assert not report.ok
    assert code is None or code in {finding.code for finding in report.findings}
    check_form(report)


def test_a_file_of_any_size_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sparse.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for source in (path, "/dev/zero"):
        start = time.perf_counter()
        assert [f.code for f in check_cluster(source).findings] == ["document-too-large"]
        assert time.perf_counter() - start < 1.0


ADDRESS = st.text(max_size=12) | st.from_regex(r"\[?[a-z0-9.:%@/-]{0,12}\]?:[0-9-]{0,6}", fullmatch=True)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ADDRESS | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(["cluster", "task", "worker", "ps", "chief", "type", "index"]) | ADDRESS, inner
        )
    ),
    max_leaves=15,
)
CLUSTERS = st.fixed_dictionaries(
    {},
    optional={
        "cluster": st.dictionaries(
            st.sampled_from(["chief", "worker", "ps", "x"]), st.lists(ADDRESS) | ANYTHING
        ),
        "task": st.fixed_dictionaries(
            {"type": ADDRESS | st.just("worker"), "index": ANYTHING | st.integers(0, 3)}
        ),
        "environment": ANYTHING,
    },
)
FUZZ = settings(max_examples=400, deadline=1000, suppress_health_check=[HealthCheck.too_slow])


@FUZZ
@given(st.text() | st.binary())
@example("{")
@example(b"\xff")
def test_fuzz_texts(text: str | bytes) -> None:
    check_form(check_cluster(text))
    for parse in (Cluster.from_tf_config, parse_tf_config):
        try:
            parse(text)
        except ClusterError as error:
            assert error.fields["findings"]
            assert str(error)


@FUZZ
@given(ANYTHING | CLUSTERS)
def test_fuzz_documents(document: Any) -> None:
    report = check_cluster(document)
    check_form(report)
    if isinstance(document, dict):
        try:
            cluster = Cluster.from_dict(document)
        except ClusterError as error:
            assert {f["code"] for f in error.fields["findings"]} <= {f.code for f in report.findings}
        else:
            assert report.cluster in (None, cluster)


@FUZZ
@given(st.text(alphabet="worker: -[]{}&*!|>'\"#%@`\n\tab:1,~0.?", max_size=60))
def test_fuzz_yaml(text: str) -> None:
    check_form(check_cluster("\n" + text))


@FUZZ
@given(worker=ANYTHING, ps=ANYTHING, type=ANYTHING, index=ANYTHING)
def test_fuzz_arguments(worker: Any, ps: Any, type: Any, index: Any) -> None:
    report = check_cluster(worker=worker, ps=ps, type=type, index=index)
    check_form(report)
    if report.task:
        # Whatever passes the check is read back unchanged.
        assert parse_tf_config(tf_config_json(report.task)) == report.task


def test_connect_tells_apart_who_answers() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        here, gone = (each.getsockname()[1] for each in (listening, closed))
        closed.close()
        report = check_cluster(worker=[f"localhost:{here}", f"127.0.0.1:{gone}"], connect=True, timeout=5)
        assert [(f.code, f.where) for f in report.findings] == [("nothing-listens", "cluster.worker[1]")]
        assert report.ok


def test_connect_finds_unknown_names_and_silent_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(address: tuple[str, int], timeout: float) -> None:
        raise {"nowhere": socket.gaierror(-2, "Name or service not known"), "silent": TimeoutError()}.get(
            address[0], OSError(113, "No route to host")
        )

    monkeypatch.setattr(socket, "create_connection", connect)
    report = check_cluster(worker=["nowhere:1", "silent:1", "[2001:db8::1]:1"], connect=True, timeout=1)
    assert [f.code for f in report.findings] == ["name-not-found", "not-reachable", "not-reachable"]
    assert report.findings[1].message == "the address can't be reached from here: no answer within 1 s"
    assert not report.ok


def test_connect_is_bounded_when_a_name_server_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def connect(*_: object) -> None:
        over.wait(30)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect)
    start = time.perf_counter()
    report = check_cluster(worker=["a:1", "b:1"], connect=True, timeout=0.1)
    assert time.perf_counter() - start < 4
    over.set()
    assert [f.code for f in report.findings] == ["not-reachable"] * 2


def test_the_report_reads_well() -> None:
    assert str(check_cluster(worker=["a:1", "b"], type="worker", index="1")) == (
        "error port-missing\n"
        "  cluster.worker[1]: b: an address has no port\n"
        "  to do: add one, such as :2222\n"
        "warning index-as-text\n"
        "  task.index: 1: the index was given as text; it is used as a number\n"
        "  to do: write it without quotation marks\n"
        "1 error, 1 warning"
    )
    assert str(check_cluster(worker=["a:1"], type="worker", index=0)) == (
        "cluster of 1 task\n  worker 0  a:1\nthis is worker 0 at a:1\nno findings"
    )


def test_the_document_lists_every_code_with_its_fix() -> None:
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{code}` | {kind.severity} | {kind.meaning} | {kind.fix} |" for code, kind in KINDS.items()
    ]
