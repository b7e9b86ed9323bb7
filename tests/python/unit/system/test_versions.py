"""Versions are read from what pip has installed, and nothing is imported for them."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tfmuster import __version__
from tfmuster.system.versions import installed_versions, recorded_versions, tensorflow_version, version_of


def nothing_but(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Python find what is in this folder, and nothing else."""
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


def install(folder: Path, name: str, version: str, module: str = "") -> None:
    """Leave what pip leaves of a distribution."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (about / "top_level.txt").write_text(f"{module}\n")


def test_the_first_distribution_that_is_installed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_but(tmp_path, monkeypatch)
    assert version_of("tensorflow", "tensorflow-cpu") is None
    assert installed_versions() == {
        "tfmuster": __version__,
        "tensorflow": "none",
        "keras": "none",
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    install(tmp_path, "tensorflow-cpu", "2.99.1")
    assert version_of("tensorflow", "tensorflow-cpu") == installed_versions()["tensorflow"] == "2.99.1"
    install(tmp_path, "tensorflow", "2.98.0")
    assert version_of("tensorflow", "tensorflow-cpu") == installed_versions()["tensorflow"] == "2.98.0"


def test_tensorflow_by_another_name_is_found_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_but(tmp_path, monkeypatch)
    assert tensorflow_version() is None
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    assert tensorflow_version() == "unknown"
    install(tmp_path, "tensorflow-rocm", "2.97.0", module="tensorflow")
    assert tensorflow_version() == installed_versions()["tensorflow"] == "2.97.0"


def test_what_a_run_notes_leaves_out_what_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"tfmuster": __version__, "python": platform.python_version(), "platform": sys.platform}
    versions = {name: metadata.version(name) for name in ("tensorflow", "keras", "numpy")}
    assert recorded_versions() == {**about, **versions}
    nothing_but(tmp_path, monkeypatch)
    install(tmp_path, "numpy", "2.99.0")
    assert recorded_versions() == {**about, "numpy": "2.99.0"}
