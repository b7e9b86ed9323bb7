"""Commands that rent machines for a job, as a bash script; see :mod:`.gce` and :mod:`.ec2`.

Nothing is sent anywhere: the text is printed, to be read, changed and run by its user. It makes machines with
R, Python and tfmuster, whose ports nobody else reaches, and writes the cluster file of their addresses. Every
value is checked against what it may be, and quoted for the shell besides.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ...errors import LaunchError
from ..text_checks import check_label

#: What R's and Python's part need of Debian 12; as in docker/Dockerfile.
DEBIAN_PACKAGES = (
    "ca-certificates",
    "curl",
    "python3-venv",
    "r-base-core",
    "r-cran-cli",
    "r-cran-generics",
    "r-cran-globals",
    "r-cran-reticulate",
    "r-cran-rlang",
)
_HOME = "/opt/tfmuster"
# No comma, which separates values in gcloud's lists, and no blank, which does in aws's.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:+@-]{0,254}", re.ASCII)
_URL = re.compile(r"https?://[!-~]{1,2000}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What all kinds of machines have in common; raises LaunchError for a value that can't be one.

    Attributes
    ----------
    name : str
        A DNS label; machines, rules and files are called after it.
    workers : int
        How many machines.
    source : str
        The address of an archive (``.tar.gz``) of tfmuster's repository, which has both packages.
    machine_type : str
        What the provider calls one.
    image : str
        A Debian, or one of its relatives, with Python 3.10 to 3.12.
    port : int
        Where TensorFlow is to listen.
    disk_gb : int
        The size of each disk, GB.
    gpus : bool
        Whether TensorFlow is to come with CUDA.
    ssh_from : str, optional
        Addresses from where one may log in, as CIDR; unless given, no rule is made for that.
    """

    #: The provider's Debian 12.
    PLAIN_IMAGE: ClassVar[str] = ""

    name: str
    workers: int
    source: str
    machine_type: str
    image: str
    port: int = 2222
    disk_gb: int = 50
    gpus: bool = False
    ssh_from: str | None = None

    def __post_init__(self) -> None:
        check_label(self.name, "job's name")
        check_label(f"{self.name}-{self.workers - 1}", "machine's name")
        check_words(self.machine_type, self.image)
        if self.gpus and self.image == self.PLAIN_IMAGE:
            raise LaunchError(
                "For GPUs the image must have their driver, which Debian's own has not.",
                found=self.image,
                fix="Name an image of the provider that has it, with Python 3.10 to 3.12.",
                reason="image",
            )
        if not _URL.fullmatch(self.source):
            raise LaunchError(
                "The source of tfmuster is given as the http(s) address of an archive.",
                found=ascii(self.source),
                reason="source",
            )
        if self.ssh_from is not None:
            try:
                ipaddress.ip_network(self.ssh_from)
            except ValueError as error:
                raise LaunchError(
                    "Those who may log in are given as a network, such as 203.0.113.7/32.",
                    found=str(error),
                    reason="ssh-from",
                ) from error

    @property
    def startup_file(self) -> str:
        """Where the start-up script is written."""
        return f"{self.name}-startup.sh"

    @property
    def cluster_file(self) -> str:
        """Where the addresses are written, for ``tfmuster config --cluster``."""
        return f"{self.name}.yaml"


def check_words(*words: str | None) -> None:
    """Raise LaunchError unless each is a provider's name for something: never an option, a list or a file."""
    for word in words:
        if word is not None and (not _WORD.fullmatch(word) or "://" in word):
            raise LaunchError(
                "Zones, types, images and the like are named by letters, digits and . _ / : + @ -",
                found=ascii(word),
                reason="word",
            )


def startup_script(machines: Machines) -> str:
    """What each machine does as root when it starts: install R, Python and tfmuster."""
    packages = shlex.join(DEBIAN_PACKAGES)
    wanted = [
        f"{_HOME}/source[{'cuda' if machines.gpus else 'tensorflow'}]",
        "numpy>=1.26,<2",  # Debian's reticulate reads numpy 1 only
    ]
    return f"""#!/bin/bash
set -euo pipefail
if [ -e {_HOME}/ready ]; then
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends {packages}
mkdir -p {_HOME}/source
curl -fsSL -- {shlex.quote(machines.source)} | tar -xz --strip-components=1 -C {_HOME}/source
python3 -m venv {_HOME}/venv
{_HOME}/venv/bin/pip install --no-cache-dir {shlex.join(wanted)}
R CMD INSTALL {_HOME}/source
ln -sf {_HOME}/venv/bin/tfmuster /usr/local/bin/tfmuster
touch {_HOME}/ready
"""


def rent_script(machines: Machines, commands: Iterable[str], addresses: str, afterwards: str) -> str:
    """The whole script: the start-up script's file, the commands, the cluster's file, and what to do then."""
    head = f"""#!/usr/bin/env bash
# Rents {machines.workers} machines for the job {machines.name}. Read it before you run it: it costs money.
set -euo pipefail

"""
    # Not a here-document: no line of the script can end this.
    startup = f"printf '%s' {shlex.quote(startup_script(machines))} >{machines.startup_file}\n\n"
    cluster = f"\necho 'worker:' >{machines.cluster_file}"
    return head + startup + "".join(f"{each}\n" for each in commands) + cluster + addresses + afterwards


def one_command(words: Iterable[str]) -> str:
    """The words quoted, an option a line."""
    first, *rest = [shlex.quote(word) for word in words]
    lines = [first]
    for word in rest:
        if word.lstrip("'").startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n  ".join(lines)
