"""The run directory: created, written, read, followed, shown, and ended."""
