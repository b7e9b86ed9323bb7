"""Runs as people and data frames show them."""
