"""JSON and YAML of every size and depth: a finding within a second."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.cluster_reports import check_form
from tfmuster import Cluster, check_cluster
from tfmuster.cluster.documents import LARGEST_DOCUMENT


def test_json_errors_have_line_and_column() -> None:
    (finding,) = check_cluster('{"cluster": {\n  "worker": ["a:1",\n    NaN]}}').findings
    assert (finding.code, finding.where) == ("not-json", "line 3, column 5")
    (finding,) = check_cluster("worker:\n  - a:1\n  - [::1]:2\n").findings
    assert (finding.code, finding.where) == ("not-yaml", "line 3, column 6")


def test_a_cluster_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    path.write_bytes(b'\xef\xbb\xbf{"worker": ["a:1"]}')
    cluster = Cluster(worker=["a:1"])
    assert check_cluster(path).cluster == cluster
    assert check_cluster(cluster).cluster == cluster


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
    seconds = []
    # Processor time, and the best of three: a busy machine takes the memory's time, too.
    while not seconds or (min(seconds) >= 1.0 and len(seconds) < 3):
        start = time.process_time()
        given = {"type": "worker", "index": 0} if text[0] in "{[\n" else {}
        report = check_cluster(text if given else "\n" + text, **given)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1.0
    assert not report.ok
    assert code is None or code in {finding.code for finding in report.findings}
    check_form(report)


def test_a_file_of_any_size_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sparse.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for source in (path, "/dev/zero"):
        begun = time.monotonic()
        assert [f.code for f in check_cluster(source).findings] == ["document-too-large"]
        assert in_time(begun, 1.0)
