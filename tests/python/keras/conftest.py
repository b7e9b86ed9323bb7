"""Tests that import TensorFlow, in this process or in programs that they run."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.tensorflow)
