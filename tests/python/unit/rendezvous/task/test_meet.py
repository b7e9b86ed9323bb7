"""The rendezvous can be turned off."""

from __future__ import annotations

from tfmuster.cluster.spec import Cluster
from tfmuster.rendezvous.task.meet import muster


def test_it_can_be_turned_off(monkeypatch):
    monkeypatch.setenv("TFMUSTER_RENDEZVOUS", "0")
    control = muster(Cluster(worker=["192.0.2.1:1", "192.0.2.2:1"]).task("worker", 1))
    assert not control.active
