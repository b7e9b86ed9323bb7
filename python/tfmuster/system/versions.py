"""Read the versions of the packages that matter to a job, without importing these packages."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from .. import __version__
from .tensorflow_import import is_installed

#: The packages that bring the module ``tensorflow``. There are others; to look for them takes longer.
_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly", "tf-nightly-cpu")


def installed_versions() -> dict[str, str]:
    """Return the versions that must be equal on all tasks: tfmuster, TensorFlow, Keras and Python.

    A missing package has the version "none". Python's version is major.minor only, because that decides
    whether models and code can be exchanged.
    """
    return {
        "tfmuster": __version__,
        "tensorflow": tensorflow_version() or "none",
        "keras": version_of("keras", "keras-nightly") or "none",
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def jax_versions() -> dict[str, str]:
    """Return the versions that must be equal on all tasks of a job on JAX, in addition."""
    return {package: version_of(package) or "none" for package in ("jax", "jaxlib")}


def recorded_versions() -> dict[str, str]:
    """Return the versions that a run records of its launching machine, without missing packages."""
    here = {"tfmuster": __version__, "python": platform.python_version(), "platform": sys.platform}
    packages = {
        "tensorflow": tensorflow_version(),
        "keras": version_of("keras", "keras-nightly"),
        "jax": version_of("jax"),
        "numpy": version_of("numpy"),
    }
    return here | {name: version for name, version in packages.items() if version is not None}


def tensorflow_version() -> str | None:
    """Return the version of TensorFlow, whichever package provides it; None if it is not installed."""
    if (version := version_of(*_TENSORFLOW_PACKAGES)) is not None or not is_installed("tensorflow"):
        return version
    others = importlib.metadata.packages_distributions().get("tensorflow", ())
    return version_of(*others) or "unknown"


def version_of(*packages: str) -> str | None:
    """Return the version of the first of these packages that is installed, or None."""
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
