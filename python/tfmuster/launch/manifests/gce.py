"""Write a script of ``gcloud`` commands that rents Google Compute Engine machines for a job.

The script is only printed, not run.

The commands are documented at https://cloud.google.com/sdk/gcloud/reference/compute.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from .rented_machines import Machines, check_words, one_command, rent_script


@dataclass(frozen=True, kw_only=True)
class GceMachines(Machines):
    """Google Compute Engine machines; see ``tfmuster manifest gce --help``."""

    PLAIN_IMAGE: ClassVar[str] = "debian-12"

    zone: str
    machine_type: str = "e2-standard-4"
    image: str = PLAIN_IMAGE
    image_project: str = "debian-cloud"
    network: str = "default"
    project: str | None = None
    accelerator: str | None = None
    accelerators: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self.zone, self.image_project, self.network, self.project, self.accelerator)


def gce_commands(machines: GceMachines) -> str:
    """Return the script as text."""
    m = machines
    names = [f"{m.name}-{index}" for index in range(m.workers)]
    project = [f"--project={m.project}"] if m.project else []
    where = [f"--zone={m.zone}", *project]
    rule = ["gcloud", "compute", "firewall-rules", "create"]
    ours = [f"--network={m.network}", "--direction=INGRESS", f"--target-tags={m.name}", *project]
    # The default network allows all its machines, so a rule of higher priority denies all other traffic.
    allow, deny = ("--action=ALLOW", "--priority=900"), ("--action=DENY", "--priority=950")
    rules = [
        [*rule, f"{m.name}-workers", *allow, "--rules=tcp", f"--source-tags={m.name}", *ours],
        [*rule, f"{m.name}-others", *deny, "--rules=tcp:1024-65535", "--source-ranges=0.0.0.0/0", *ours],
    ]
    if m.ssh_from:
        rules.append(
            [*rule, f"{m.name}-ssh", *allow, "--rules=tcp:22", f"--source-ranges={m.ssh_from}", *ours]
        )
    create = [
        *("gcloud", "compute", "instances", "create", *names, *where),
        f"--machine-type={m.machine_type}",
        f"--image-family={m.image}",
        f"--image-project={m.image_project}",
        f"--boot-disk-size={m.disk_gb}GB",
        f"--network={m.network}",
        f"--tags={m.name}",
        f"--metadata-from-file=startup-script={m.startup_file}",
    ]
    if m.accelerator:
        create += [f"--accelerator=type={m.accelerator},count={m.accelerators}"]
        create += ["--maintenance-policy=TERMINATE", "--metadata=install-nvidia-driver=True"]
    describe = ["gcloud", "compute", "instances", "describe", *where]
    describe += ["--format=get(networkInterfaces[0].networkIP)"]
    ssh = shlex.join(["gcloud", "compute", "ssh", *where])
    delete = shlex.join(["gcloud", "compute", "instances", "delete", *names, *where])
    rule_names = [words[4] for words in rules]
    delete_rules = shlex.join(["gcloud", "compute", "firewall-rules", "delete", *rule_names, *project])
    return rent_script(
        machines,
        [*map(one_command, rules), one_command(create)],
        f"""
for name in {shlex.join(names)}; do
  address=$({shlex.join(describe)} "$name")
  echo "  - $address:{m.port}" >>{m.cluster_file}
done
""",
        f"""
# The installation takes some minutes. Check whether a machine is ready:
#
#   {ssh} {names[0]} --command='tfmuster test'
#
# Then send the script to each machine, and start it as the machine's task:
#
#   for i in {{0..{m.workers - 1}}}; do
#     place=$(tfmuster config --cluster {m.cluster_file} --type worker --index "$i" --format shell)
#     {ssh} "{m.name}-$i" --command="$place; tfmuster worker -- train.R" &
#   done; wait
#
# The machines cost money until you delete them:
#
#   {delete}
#   {delete_rules}
""",
    )
