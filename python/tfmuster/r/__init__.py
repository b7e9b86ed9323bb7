"""The Python side of the R package."""
