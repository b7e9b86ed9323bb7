"""Fixtures of the tests of digits."""

from __future__ import annotations

from support.digits import empty_home, server  # noqa: F401
