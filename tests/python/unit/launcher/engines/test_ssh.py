"""The command that ssh runs on a host."""

from __future__ import annotations

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.hosts import parse_hosts
from tfmuster.launcher.engines.ssh import Ssh
from tfmuster.options import places


class TestOptions:
    HOSTS = parse_hosts("node1:2,me@node2")

    def test_only_the_path_of_a_python_is_a_remote_command(self) -> None:
        where = Ssh(places.Ssh(remote_python="/o p/$(x)/python"), self.HOSTS)
        *_, dashes, host, command = where.agent_command(self.HOSTS[1], 60)
        assert (dashes, host) == ("--", "me@node2")
        assert command.startswith("'/o p/$(x)/python' -c 'import sys;")

    @pytest.mark.parametrize("python", ["-c", "a\nb", "--version"])
    def test_what_is_no_python_is_refused(self, python: str) -> None:
        with pytest.raises(LaunchError, match="path or the name of a command"):
            Ssh(places.Ssh(remote_python=python), self.HOSTS)

    @pytest.mark.parametrize(
        "text", ["node3=10.0.0.3", "node1", "node1=", "node1=a b", "node1=-x", "node1=a:1"]
    )
    def test_what_is_no_address_is_refused(self, text: str) -> None:
        with pytest.raises(LaunchError, match="by which the others reach it"):
            Ssh(places.Ssh(addresses=dict([text.partition("=")[::2]])), self.HOSTS)

    def test_a_given_address_is_the_only_one(self) -> None:
        where = Ssh(places.Ssh(addresses={"node1": "10.0.0.1"}), self.HOSTS)
        assert where.names(self.HOSTS[0]) == ["10.0.0.1"]
