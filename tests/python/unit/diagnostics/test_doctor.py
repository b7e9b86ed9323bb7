"""Versions that do not go together are told."""

from __future__ import annotations

import pytest

from tfmuster.diagnostics import doctor


@pytest.mark.parametrize(
    ("reticulate", "numpy", "told"),
    [("1.28", "1.26.4", False), ("1.28", "2.1.0", True), ("1.46.0", "2.1.0", False), (None, "1.26.4", True)],
)
def test_versions_that_do_not_go_together_are_told(reticulate: str | None, numpy: str, told: bool) -> None:
    report = {
        "python": {"lacks": {}},
        "packages": {"tensorflow": "2.21.0", "numpy": numpy},
        "r": {"packages": {"reticulate": reticulate}},
        "environment": {},
        "machine": {"name_resolves": True, "port_guard": "works", "sums": "C"},
    }
    notes = doctor.notes(report)
    assert any("reticulate" in note and "Python 3.11" not in note for note in notes) == told
