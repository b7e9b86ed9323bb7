"""Whether all workers mean the same."""
