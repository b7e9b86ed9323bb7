"""Values that are refused for rented machines."""

from __future__ import annotations

import pytest

from support.rented_machines import EC2, GCE, SKYPILOT, WORDS
from tfmuster.errors import LaunchError
from tfmuster.launcher.manifests.rented_machines import Ec2Machines, GceMachines, SkyPilotMachines

BAD = [
    "",
    "-x",
    "--zone=b",
    "a b",
    "a,b",
    "a\nb",
    "$(id)",
    "`id`",
    "'",
    '"',
    "file:///etc/passwd",
    "ä",
    "a;b",
    "x" * 256,
]


@pytest.mark.parametrize(
    "url", ["http://example.org/a.tar.gz", "HTTP://example.org/a", "ftp://example.org/a", "git@x:a"]
)
def test_a_source_that_others_could_change_on_the_way_is_refused(url: str) -> None:
    with pytest.raises(LaunchError) as caught:
        GceMachines(**{**GCE, "source": url})
    assert caught.value.fields["reason"] == "source"
    assert ("without TLS" in str(caught.value)) is url.lower().startswith("http:")


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("field", [*WORDS, "name", "source", "ssh_from"])
def test_what_can_be_no_value_is_refused(field: str, text: str) -> None:
    with pytest.raises(LaunchError):
        GceMachines(**{**GCE, field: text})
    if field in ("machine_type", "image"):
        for each in (field, "region", "key_name", "subnet", "vpc"):
            with pytest.raises(LaunchError):
                Ec2Machines(**{**EC2, each: text})


@pytest.mark.parametrize("text", BAD)
def test_what_can_be_no_accelerator_is_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        SkyPilotMachines(**SKYPILOT, accelerators=text)


@pytest.mark.parametrize(
    ("command", "reason"),
    [(("train.R",), "command"), (("train.r", "1"), "command"), (("train.py", "a\nb"), "text")],
)
def test_what_skypilot_can_not_run_is_refused(command: tuple[str, ...], reason: str) -> None:
    with pytest.raises(LaunchError) as caught:
        SkyPilotMachines(**{**SKYPILOT, "command": command})
    assert caught.value.fields["reason"] == reason
