"""What holds for every report of a check."""

from __future__ import annotations

import json

from tfmuster.cluster.check import Report
from tfmuster.cluster.findings import KINDS, MOST_FINDINGS


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
