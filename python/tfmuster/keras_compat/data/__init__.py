"""Pipelines of data, and their order."""
