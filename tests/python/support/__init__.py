"""What tests of several folders, and benchmarks, have in common.

pytest finds it by `pythonpath` in pyproject.toml, benchmarks by PYTHONPATH=tests/python.
"""
