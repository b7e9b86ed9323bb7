"""The engine of MPI that a user's options describe."""

from __future__ import annotations

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.base import engine_for
from tfmuster.launcher.engines.hosts import parse_hosts
from tfmuster.launcher.engines.mpi import Mpi
from tfmuster.options import places


def test_what_its_user_says() -> None:
    where = places.Mpi("a:2,b", "--map-by node", copy=True, files="x y")
    engine = engine_for(where)
    assert engine == Mpi(where, parse_hosts("a:2,b"))
    assert engine.slots == 3
    assert engine.as_options() == [
        *("--backend=mpi", "--hosts=a:2,b:1", "--copy", "--file=x y", "--backend-option=--map-by node"),
    ]
    assert engine_for(places.Mpi()).slots is None
    for wrong in ({"hosts": "me@a:2"}, {"hosts": "a", "addresses": {"a": "b"}}, {"hosts": "a:x"}):
        with pytest.raises(LaunchError) as refused:
            engine_for(places.Mpi(**wrong))  # type: ignore[arg-type]
        assert refused.value.fields["reason"] == "hosts"
