"""Create, write, read, follow and end runs, each stored in a run directory."""
