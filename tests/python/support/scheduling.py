"""Which of several processes of pytest runs which tests, and in what order."""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from support.selection import left

#: Files that share a cluster, which is built once for each process of pytest that needs it.
_TOGETHER = re.compile(r"tests/python/engines/(?!ssh/)\w+/")
#: Sessions of one file, each of minutes, that can run beside each other.
_APART = re.compile(r"test_differential\.py::\w+\[(\w+)-")
#: What waits more than it computes, the longest first.
_WAITING = (
    "tests/python/engines/slurm",
    "tests/python/engines/ssh/test_membership",
    "tests/python/engines/",
    "tests/python/project/",
    "tests/python/jobs/",
)
#: What computes, the longest first.
_COMPUTING = ("tests/python/keras/differential", "tests/testthat/test-launch", "tests/python/keras/")
#: The end of the name of a unit of what `make test` leaves out.
_REST = "::rest"
#: R lives in the process of these, and stays in it.
_LAST = "tests/parity/"


class ByFile(LoadScopeScheduling):
    """The tests of a file, whose fixtures are made once, are a unit, and so is the cluster of an engine.

    Tests of jobs and of other machines wait more than they compute; those of keras/ compute, and so do R's.
    More than half of the processes take the former as long as there are any, and the others the latter: so
    the processors of a small machine are never idle, and rarely wanted by all.

    What `make test` leaves out comes last: on a slow machine there may be no time for it.
    """

    def _split_scope(self, nodeid: str) -> str:
        shared, session = _TOGETHER.match(nodeid), _APART.search(nodeid)
        unit = shared[0] if shared else nodeid.partition("::")[0]
        return unit + (f"::{session[1]}" if session else "") + (_REST if left(nodeid) else "")

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = self.nodes.index(node) <= len(self.nodes) // 2
        kinds = (*_WAITING, *_COMPUTING) if waits else (*_COMPUTING, "tests/testthat/", "tests/python/unit/")
        units = [unit for unit in self.workqueue if not unit.startswith(_LAST)]
        units = [unit for unit in units if not unit.endswith(_REST)] or units
        chosen = next((unit for kind in kinds for unit in units if unit.startswith(kind)), None)
        chosen = chosen or next(iter(units), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
