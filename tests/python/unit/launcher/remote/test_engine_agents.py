"""The command that an engine runs for each agent."""

from __future__ import annotations

import sys

from tfmuster.launcher.remote.engine_agents import AgentRequest


def test_the_command_of_an_agent() -> None:
    call = AgentRequest("name", 2, ("node1:4000", "10.0.0.1:4000"), 60.0, {"TFMUSTER_TOKEN": "secret"})
    words = call.command(sys.executable, rank_from=("OMPI_COMM_WORLD_RANK", "PMI_RANK"))
    assert words[0] == sys.executable and "secret" not in " ".join(words)
    assert words[-6:] == [
        "--home",
        "node1:4000,10.0.0.1:4000",
        "--seconds",
        "60",
        "--rank-from",
        "OMPI_COMM_WORLD_RANK,PMI_RANK",
    ]
