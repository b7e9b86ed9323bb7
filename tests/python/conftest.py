"""Fixtures that several test files share."""

from __future__ import annotations

from rendezvous_job import job  # noqa: F401
