"""Packages, so that fixtures of the scope "package" last for the tests of a folder, and no longer."""
