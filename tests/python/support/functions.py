"""A function of a module, which tests run on workers, and the class of its argument."""

from __future__ import annotations

import os

OFFSET = 40


class Digits:
    def __init__(self, first: int) -> None:
        self.first = first


def placed(extra: int, digits: Digits) -> tuple[str, int, int]:
    from tfmuster import current_task

    task = current_task()
    assert task is not None
    return task.name, OFFSET + extra + digits.first, os.getpid()
