"""The engine that a user's options describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.base import engine_for, place_for
from tfmuster.launcher.engines.local import ThisMachine
from tfmuster.options.places import Local, Ssh
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    """The texts below are those of the command line."""
    with speaking("shell"):
        yield


class TestEngines:
    @pytest.mark.parametrize(
        ("where", "found", "fix"),
        [
            ({"backend": "horovod"}, None, "Choose one of local, ssh"),
            ({"backend": "ssh"}, "none", "Name them: -H node1:2,node2:2, or --hostfile."),
            (
                {"backend": "local", "hosts": "a,b"},
                "hosts a, b",
                "Leave the hosts out, or choose the backend ssh.",
            ),
            # The job would run elsewhere, or otherwise, than is meant.
            ({"master": "local[2]"}, "no backend", "Choose the backend spark, or leave the setting out."),
            ({"backend": "slurm", "spark": object()}, "the backend slurm", "Choose the backend spark, or"),
            (
                {"hosts": "a,b", "backend_options": ["-x"]},
                "no backend",
                "Choose the backend spark, slurm, sge, ",
            ),
        ],
    )
    def test_refused(self, where: dict[str, Any], found: str | None, fix: str) -> None:
        with pytest.raises(LaunchError) as caught:
            engine_for(place_for(where.pop("backend", None), where))
        assert caught.value.found == found
        assert str(caught.value.fix).startswith(fix)

    def test_chosen_by_the_hosts(self) -> None:
        assert engine_for(place_for(None, {})) == engine_for(Local()) == ThisMachine()
        here = engine_for(place_for(None, {"hosts": "localhost:3"}))
        assert isinstance(here, ThisMachine) and here.slots == 3
        assert engine_for(Ssh("a:2,b")).slots == 3
