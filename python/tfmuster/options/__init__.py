"""The settings of a launch: one row each (:mod:`.table`), for the command line, Python and R."""
