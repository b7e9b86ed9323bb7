"""The versions that matter to a job, read in one place."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import sys

from .. import __version__

_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly", "tf-nightly-cpu")


def installed_versions() -> dict[str, str]:
    """Versions of tfmuster, TensorFlow, Keras and Python, without importing them; "none" if not installed.

    Python's is major.minor only: that is what decides whether models and code can be exchanged.
    """
    from .. import __version__

    return {
        "tfmuster": __version__,
        "tensorflow": _version_of(*_TENSORFLOW_PACKAGES),
        "keras": _version_of("keras", "keras-nightly"),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def _version_of(*packages: str) -> str:
    from importlib import metadata

    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "none"


def versions() -> dict[str, str]:
    """Versions of Python, tfmuster and what it stands on, without importing any of it."""
    found = {"tfmuster": __version__, "python": platform.python_version(), "platform": sys.platform}
    for package in ("tensorflow", "keras", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
