"""The files of a run, and the list of all runs."""
