"""Versions that ``tfmuster doctor`` finds on this machine."""

from __future__ import annotations

from importlib import metadata

from tfmuster.diagnostics.doctor import doctor
from tfmuster.system.versions import version_of


def test_doctor_names_what_is_not_installed_too() -> None:
    packages = doctor(devices=False)["packages"]
    assert packages["numpy"] == metadata.version("numpy")
    assert set(packages) >= {"tensorflow", "keras", "tf-keras", "click", "orjson"}
    assert packages["tf-keras"] == version_of("tf-keras")
