"""A package: see engines/__init__.py."""
