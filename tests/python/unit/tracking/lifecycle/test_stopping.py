"""A run directory can not have this user run another command than the one that ends its batch job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launcher.engines.lsf import Lsf
from tfmuster.launcher.engines.pbs import Pbs
from tfmuster.launcher.engines.sge import Sge
from tfmuster.launcher.engines.slurm import Slurm
from tfmuster.tracking.lifecycle.stopping import STOP_COMMANDS, stop_command
from tfmuster.tracking.record.recording import record_stop_command


@pytest.mark.parametrize(
    "command",
    [
        *(["scancel", "12"], ["scancel", "12_3"], ["qdel", "12"], ["qdel", "12", "-t", "3"]),
        *(["qdel", "12[].pbs.example.org"], ["qdel", "12[3].pbs-1"], ["bkill", "12"], ["bkill", "12[3]"]),
    ],
)
def test_the_commands_of_batch_systems(tmp_path: Path, command: list[str]) -> None:
    record_stop_command(tmp_path, command)
    assert stop_command(tmp_path) == command


@pytest.mark.parametrize(
    "command",
    [
        *(
            ["touch", "trace"],
            ["/tmp/scancel", "12"],
            ["scancel", "--user=me"],
            ["scancel"],
            ["scancel", "12;id"],
        ),
        *(["qdel", "all"], ["qdel", "-u", "*"], ["qdel", "12", "-t", "1-9"], ["bkill", "0", "-u", "all"]),
        *(["bkill", "12\n13"], ["scancel", "12", "13"], ["scancel", "\u0661"], "scancel 12", {"scancel": 12}),
    ],
)
def test_other_commands_are_refused(tmp_path: Path, command: Any) -> None:
    (tmp_path / "stop.json").write_text(json.dumps({"command": command}))
    with pytest.raises(LaunchError) as caught:
        stop_command(tmp_path)
    assert caught.value.fields["reason"] == "stop-command"


def test_no_command(tmp_path: Path) -> None:
    assert stop_command(tmp_path) == []


@pytest.mark.parametrize("engine", [Lsf, Pbs, Sge, Slurm])
def test_every_batch_system_is_known(engine: Any) -> None:
    assert engine.SYSTEM.STOP in STOP_COMMANDS
