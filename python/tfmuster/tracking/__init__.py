"""Runs: each is recorded in a directory, from which any session reads, follows, and ends it."""
