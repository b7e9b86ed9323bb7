"""Any input to the checks of clusters: findings, never a traceback."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.cluster_reports import check_form
from tfmuster import Cluster, check_cluster
from tfmuster.cluster.tf_config import parse_tf_config, tf_config_json
from tfmuster.errors import ClusterError

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
    try:
        parse_tf_config(text)
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
