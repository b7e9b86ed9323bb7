"""What is written down twice, for R and for Python, is the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import tfmuster
from conftest import ROOT


def test_install_tfmuster_installs_what_pyproject_asks_for() -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    from rpy2 import robjects

    packages = robjects.r('tfmuster:::required_packages(package_version("1.46"))')
    assert sorted(packages) == sorted(wanted)


def test_versions_are_equal() -> None:
    description = dict(
        line.split(": ", 1) for line in (ROOT / "DESCRIPTION").read_text().splitlines() if ": " in line
    )
    assert description["Version"] == tfmuster.__version__


def test_r_uses_this_python_and_this_core(r: Callable[..., Any]) -> None:
    from rpy2 import robjects

    assert robjects.r("reticulate::import('os')$getpid()")[0] == __import__("os").getpid()
    r("tf_config_from_r", '{"worker": ["a:1"]}', "worker", 0)
    assert sys.modules["tfmuster.r_bridge"].__file__.startswith(str(tfmuster.__path__[0]))
