"""Read the metrics of all epochs of a run, of which there may be a million."""

from __future__ import annotations

import contextlib
import itertools
import operator
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...system.regular_files import each_block
from .layout import MOST_LINES, each_json_block, json_objects
from .lines import METRICS, NO_METRICS, epoch_values

_NAN = float("nan")


class Column:
    """A metric: its ``values``, NaN where an epoch lacks it, and whether each epoch has it (``known``)."""

    def __init__(self) -> None:
        self.values, self.known = array("d"), bytearray()

    def reach(self, epochs: int) -> None:
        """Add epochs that lack the metric, up to this number of epochs."""
        if not (lacking := epochs - len(self.known)):
            return
        self.values.extend([_NAN] * lacking)
        self.known.extend(bytes(lacking))

    def taken(self, order: list[int]) -> Column:
        """Return the column of these epochs."""
        column = Column()
        column.values.extend(map(self.values.__getitem__, order))
        column.known.extend(map(self.known.__getitem__, order))
        return column

    def numbered(self) -> Iterator[tuple[int, float]]:
        """Yield the values that are known, with the numbers of their epochs in the run, from 1."""
        return itertools.compress(enumerate(self.values, 1), self.known)


class History:
    """The epochs of a run in order, in columns: a value takes 9 bytes, a tenth of what an object takes."""

    def __init__(self, blocks: Iterable[list[dict[str, Any]]]) -> None:
        # The numbers come from floats, and may be larger than any integer of an array.
        self._fits, self._epochs = array("d"), array("d")
        self.columns: dict[str, Column] = {}
        for lines in blocks:
            if not self._add_alike(lines):
                self._add_each(lines)
        for column in self.columns.values():
            column.reach(len(self))
        before, after = zip(self._fits, self._epochs, strict=True), zip(self._fits, self._epochs, strict=True)
        next(after, None)
        if not all(map(operator.lt, before, after)):
            self._put_in_order()

    def _add_alike(self, lines: Sequence[Mapping[str, Any]]) -> bool:
        """Add lines if all have the same metrics, and numbers only: in a fifth of the time."""
        if len(kinds := set(map(tuple, lines))) != 1:
            return False
        metrics = [name for name in kinds.pop() if name not in NO_METRICS]
        try:
            rows = map(operator.itemgetter("fit", "epoch", *metrics), lines)
            fits, epochs, *values = (array("d", column) for column in zip(*rows, strict=True))
        except (KeyError, TypeError):
            return False
        if not all(map(float.is_integer, itertools.chain(fits, epochs))):
            return False
        for column, numbers in zip(map(self._column, metrics), values, strict=True):
            column.values.extend(numbers)
            column.known.extend(b"\1" * len(lines))
        self._fits.extend(fits)
        self._epochs.extend(epochs)
        return True

    def _add_each(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add lines of any kind."""
        for line in lines:
            # A program may write an endless epoch.
            with contextlib.suppress(ValueError, OverflowError):
                values = epoch_values(line, len(self) + 1)
                for name, value in values.items():
                    if name not in NO_METRICS:
                        column = self._column(name)
                        column.values.append(value)
                        column.known.append(True)
                self._fits.append(values["fit"])
                self._epochs.append(values["epoch"])

    def _column(self, name: str) -> Column:
        """Return the column of a metric, up to the epoch that is added."""
        column = self.columns.setdefault(name, Column())
        column.reach(len(self))
        return column

    def _put_in_order(self) -> None:
        """Sort the epochs by training and epoch. Of those that a restart repeated, the last line counts."""
        fits, epochs = self._fits, self._epochs
        order = sorted(range(len(self)), key=epochs.__getitem__)
        order.sort(key=fits.__getitem__)
        after = iter([*order[1:], None])
        order = [
            at
            for at, following in zip(order, after, strict=True)
            if following is None or fits[at] != fits[following] or epochs[at] != epochs[following]
        ]
        self._fits, self._epochs = (array("d", map(numbers.__getitem__, order)) for numbers in (fits, epochs))
        columns = {name: column.taken(order) for name, column in self.columns.items()}
        self.columns = {name: column for name, column in columns.items() if any(column.known)}

    def __len__(self) -> int:
        return len(self._fits)

    def fit(self, at: int) -> int:
        """Return the number of the training of an epoch, given by its place in the run, from 0."""
        return int(self._fits[at])

    def epoch(self, at: int) -> int:
        """Return the number of an epoch in its training, given by its place in the run, from 0."""
        return int(self._epochs[at])

    def lists(self) -> dict[str, list[float]]:
        """Return the metrics of each epoch by name; see :meth:`.run.Run.history`."""
        has_one_fit = not self._fits or self.fit(-1) <= 1
        return {
            name: [*itertools.compress(column.values, column.known)]
            if has_one_fit
            else column.values.tolist()
            for name, column in self.columns.items()
        }


def read_history(run_dir: Path) -> History:
    """Read all epochs of a run, some hundred KB of the file at a time."""
    return History(each_json_block(run_dir / METRICS))


class NewEpochs:
    """Reads the epochs that a run adds from now on; of the file, only what is new."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / METRICS
        self._offset = self._lines = 0
        self._last = (0, 0)
        for _ in self.each():
            pass

    def each(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each epoch that is new, and not one that a restart repeats."""
        with contextlib.suppress(OSError):
            for lines in each_block(self._path, MOST_LINES, self._offset):
                if not lines[-1].endswith(b"\n"):
                    # Its end has not been written yet.
                    lines.pop()
                self._offset += sum(map(len, lines))
                yield from self._new(json_objects(lines))

    def _new(self, lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for line in lines:
            with contextlib.suppress(ValueError, OverflowError):
                self._lines += 1
                values = epoch_values(line, self._lines)
                if (place := (values["fit"], values["epoch"])) > self._last:
                    self._last = place
                    yield values
