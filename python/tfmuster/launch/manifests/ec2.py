"""Write a script of ``aws`` commands that rents Amazon EC2 machines for a job.

The script is only printed, not run.

The commands are documented at https://docs.aws.amazon.com/cli/latest/reference/ec2.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import ClassVar

from .rented_machines import Machines, check_words, one_command, rent_script


@dataclass(frozen=True, kw_only=True)
class Ec2Machines(Machines):
    """Amazon EC2 machines; see ``tfmuster manifest ec2 --help``."""

    #: Debian's name for its newest image: https://wiki.debian.org/Cloud/AmazonEC2Image
    PLAIN_IMAGE: ClassVar[str] = "resolve:ssm:/aws/service/debian/release/12/latest/amd64"

    machine_type: str = "m6i.xlarge"
    image: str = PLAIN_IMAGE
    region: str | None = None
    key_name: str | None = None
    subnet: str | None = None
    vpc: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self.region, self.key_name, self.subnet, self.vpc)


def ec2_commands(machines: Ec2Machines) -> str:
    """Return the script as text."""
    m = machines
    region = [f"--region={m.region}"] if m.region else []

    def ec2(verb: str, *words: str) -> list[str]:
        return ["aws", "ec2", verb, *region, *words]

    group = ec2("create-security-group", f"--group-name={m.name}", f"--description=tfmuster job {m.name}")
    group += [f"--vpc-id={m.vpc}"] if m.vpc else []
    allow = ec2("authorize-security-group-ingress", "--protocol=tcp")
    disks = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": m.disk_gb, "VolumeType": "gp3"}}]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": m.name}]}]
    run = ec2(
        "run-instances",
        f"--image-id={m.image}",
        f"--instance-type={m.machine_type}",
        f"--count={m.workers}",
        f"--user-data=file://{m.startup_file}",
        f"--block-device-mappings={json.dumps(disks)}",
        f"--tag-specifications={json.dumps(tags)}",
        *([f"--key-name={m.key_name}"] if m.key_name else []),
        *([f"--subnet-id={m.subnet}"] if m.subnet else []),
    )
    wait = ec2("wait", "instance-running", "--instance-ids")
    describe = ec2("describe-instances", "--output=text")
    describe += ["--query=Reservations[].Instances[].[PrivateIpAddress,PublicIpAddress]", "--instance-ids"]
    text = ["--output=text"]
    commands = [
        f"group=$({one_command([*group, '--query=GroupId', *text])})",
        f'{one_command([*allow, "--port=0-65535"])} --group-id="$group" --source-group="$group"',
    ]
    if m.ssh_from:
        commands.append(
            f'{one_command([*allow, "--port=22", f"--cidr={m.ssh_from}"])} --group-id="$group"',
        )
    commands += [
        f"text=$({one_command([*run, '--query=Instances[].InstanceId', *text])} "
        + '--security-group-ids="$group")',
        "mapfile -t instances < <(tr -s '[:space:]' '\\n' <<<\"$text\")",
        f'{shlex.join(wait)} "${{instances[@]}}"',
    ]
    terminate = shlex.join(ec2("terminate-instances", "--instance-ids"))
    return rent_script(
        machines,
        commands,
        f"""
text=$({one_command(describe)} "${{instances[@]}}")
: >{m.name}.hosts
while read -r address public; do
  echo "  - $address:{m.port}" >>{m.cluster_file}
  echo "$public" >>{m.name}.hosts
done <<<"$text"
echo "machines: ${{instances[*]}}; security group: $group"
""",
        f"""
# The installation takes some minutes. Check whether a machine is ready:
#
#   ssh admin@ADDRESS tfmuster test
#
# Then send the script to each machine, and start it as the machine's task:
#
#   mapfile -t hosts <{m.name}.hosts
#   for i in "${{!hosts[@]}}"; do
#     place=$(tfmuster config --cluster {m.cluster_file} --type worker --index "$i" --format shell)
#     ssh "admin@${{hosts[$i]}}" "$place; tfmuster worker -- train.R" &
#   done; wait
#
# The machines cost money until you delete them. Delete the security group after them:
#
#   {terminate} MACHINES
#   {shlex.join(ec2("delete-security-group", "--group-id"))} GROUP
""",
    )
