"""What R says of a worker's failure: nothing twice."""

from __future__ import annotations

import pytest

from tfmuster.r.calls import condition_bytes, failure_texts
from tfmuster.tracking.failure.failure import Failure

OF_R = "no luck (worker 0 on h failed with exit code 1)"
OF_THE_NOTE = "Error in `g()`: no luck (worker 0 on h failed with exit code 1)"
BEFORE = "Its last lines:\n  step 1"
TRACE = "Backtrace:\n 1. f()"


@pytest.mark.parametrize(
    ("cause", "shown", "message", "found"),
    [
        ("no luck\nand no more", True, OF_R, None),
        ("no luck", False, OF_R, BEFORE),
        (None, True, OF_THE_NOTE, None),
        (None, False, OF_THE_NOTE, f"{BEFORE}\n\n{TRACE}"),
    ],
)
def test_the_cause_is_first_and_once(cause: str | None, shown: bool, message: str, found: str | None) -> None:
    note = {"error": "Error in `g()`: no luck", "traceback": TRACE}
    lines = ("step 1", "Error in `g()`: no luck")
    failure = Failure.of("worker 0", host="h", code=1, time=0.0, note=note, last_lines=lines, log="x.log")
    # R converts the fields, and passes them back.
    fields = {**failure.to_error().to_dict(), "last_lines": list(lines)}
    texts = failure_texts(fields, cause=cause, shown=shown)
    assert texts == {"message": message, "found": found, "fix": "Full output: x.log"}


def test_the_advice_comes_after_the_log() -> None:
    failure = Failure.of("worker 0", host="h", code=-9, time=0.0, note={}, last_lines=(), log="x.log")
    texts = failure_texts(failure.to_error().to_dict(), cause=None, shown=True)
    assert texts["fix"].startswith("Full output: x.log\nIf nobody killed it, the machine ran out of memory")


#: What R's ``serialize(list(1L), NULL, version = 2)`` returns, and the same of ``list(mean)``'s beginning.
_DATA = "580a000000020004020200020300" + "0000001300000001" + "0000000d00000001" + "00000001"
_FUNCTION = "580a000000020004020200020300" + "0000001300000001" + "00000403"


def test_a_condition_is_read_only_if_it_is_data() -> None:
    assert condition_bytes(_DATA) == bytes.fromhex(_DATA)
    for odd in (None, "", "5", "no", _DATA[:-2], _FUNCTION):
        assert condition_bytes(odd) is None
