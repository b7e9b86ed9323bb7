"""What R says of a worker's failure: nothing twice."""

from __future__ import annotations

import pytest

from tfmuster.r.failures import failure_texts
from tfmuster.runs.failure import Failure

ENDING = "worker 0 on h failed with exit code 1."
HEADLINE = "worker 0 on h failed with exit code 1: Error in `g()`: no luck"
BEFORE = "Its last lines:\n  step 1"
TRACE = "Backtrace:\n 1. f()"


@pytest.mark.parametrize(
    ("has_cause", "shown", "message", "found"),
    [
        (True, True, ENDING, None),
        (True, False, ENDING, BEFORE),
        (False, True, HEADLINE, None),
        (False, False, HEADLINE, f"{BEFORE}\n\n{TRACE}"),
    ],
)
def test_nothing_is_said_twice(has_cause: bool, shown: bool, message: str, found: str | None) -> None:
    note = {"error": "Error in `g()`: no luck", "traceback": TRACE}
    lines = ("step 1", "Error in `g()`: no luck")
    failure = Failure.of("worker 0", host="h", code=1, time=0.0, note=note, last_lines=lines, log="x.log")
    # R converts the fields, and passes them back.
    fields = {**failure.to_error().to_dict(), "last_lines": list(lines)}
    texts = failure_texts(fields, has_cause=has_cause, shown=shown)
    assert texts == {"message": message, "found": found, "fix": "Full output: x.log"}


def test_the_advice_comes_after_the_log() -> None:
    failure = Failure.of("worker 0", host="h", code=-9, time=0.0, note={}, last_lines=(), log="x.log")
    texts = failure_texts(failure.to_error().to_dict(), has_cause=False, shown=True)
    assert texts["fix"].startswith("Full output: x.log\nIf nobody killed it, the machine ran out of memory")
