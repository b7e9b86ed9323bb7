"""Losses, metrics, and random numbers of a worker's rows."""
