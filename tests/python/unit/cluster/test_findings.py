"""Every finding is in the documentation."""

from __future__ import annotations

from support.paths import ROOT
from tfmuster.cluster.findings import KINDS
from tfmuster.words import now, speaking


def test_the_document_lists_every_code_with_its_fix() -> None:
    text = (ROOT / "docs" / "reference" / "clusters.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    with speaking("shell"):
        expected = [
            f"| `{code}` | {kind.severity} | {kind.meaning} | {now(kind.fix)} |"
            for code, kind in KINDS.items()
        ]
    assert rows == expected
