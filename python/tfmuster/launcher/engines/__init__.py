"""Run jobs on this machine, on other machines, or through a scheduler: one module for each engine."""
