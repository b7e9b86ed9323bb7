"""Any words in a manifest for Kubernetes arrive as they are, or are refused."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from support.pod_jobs import ANY_TEXT, check_nothing_is_injected
from tfmuster.errors import LaunchError


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_TEXT, max_size=4), ANY_TEXT)
def test_any_words_arrive_as_they_are_or_are_refused(words: list[str], value: str) -> None:
    with contextlib.suppress(LaunchError):
        check_nothing_is_injected(words, value)
        return
    assert any("\0" in text or not _encodes(text) for text in (*words, value))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
