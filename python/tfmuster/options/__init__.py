"""The settings of a launch: one row each (:mod:`.table`), for the command line, Python and R."""

from . import table as table  # it documents the classes of :mod:`.places`, too
