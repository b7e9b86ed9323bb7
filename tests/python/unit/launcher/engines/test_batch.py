"""What all batch systems share."""

from __future__ import annotations

import pytest

from support.batch_systems import SYSTEMS
from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.base import engine_for, place_for
from tfmuster.launcher.engines.batch import safe_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [("train", "train"), ("1st try: $(x)/é,b", "run1st_try_x_b"), ("", "run"), ("a" * 200, "a" * 15)],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name, 15) == safe[:15]


@pytest.mark.parametrize("name", SYSTEMS)
def test_hosts_are_refused(name: str) -> None:
    with pytest.raises(LaunchError, match="chooses the nodes"):
        engine_for(place_for(name, {"hosts": "node1"}))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("option", ["no option", "-l a=b\nsecond line"])
def test_an_option_is_one_line_and_begins_as_one(name: str, option: str) -> None:
    with pytest.raises(LaunchError, match="without control characters, and must start with -"):
        engine_for(place_for(name, {"backend_options": option}))
