"""Write a bash script that rents machines for a job; see :mod:`.gce` and :mod:`.ec2`.

The script is only printed. You read it, change it if needed, and run it. It starts machines with R, Python
and tfmuster, allows connections to TensorFlow's ports only between them, and writes a cluster file with their
addresses. Every value is checked, and quoted for the shell.
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

#: Debian 12 packages for the R package and the Python package, as in docker/Dockerfile.
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
# Without commas, which separate values in gcloud's lists, and blanks, which do so in aws's.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:+@-]{0,254}", re.ASCII)
_URL = re.compile(r"https://[!-~]{1,2000}", re.ASCII)

_DOWNLOAD = "curl -fsSL --proto =https --proto-redir =https --"


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The settings of machines of any provider. Raises LaunchError for an invalid value.

    Attributes
    ----------
    name : str
        A DNS label. Names of machines, rules and files start with it.
    workers : int
        Number of machines.
    source : str
        URL of an archive (``.tar.gz``) of tfmuster's repository, which has both packages.
    machine_type : str
        The provider's name of the machine type.
    image : str
        An image with Debian or a derivative, and Python 3.10 to 3.12.
    port : int
        Port on which TensorFlow listens.
    disk_gb : int
        Size of each disk, in GB.
    gpus : bool
        Whether to install TensorFlow with CUDA.
    ssh_from : str, optional
        Network, in CIDR notation, from which ssh is allowed. By default, no rule allows ssh.
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
                "For GPUs, the image must have a GPU driver, and Debian's own image does not.",
                found=self.image,
                fix="Choose an image of the provider with a driver and Python 3.10 to 3.12.",
                reason="image",
            )
        if not _URL.fullmatch(self.source):
            raise LaunchError(
                "The source of tfmuster must be the https URL of an archive.",
                found=ascii(self.source),
                fix="The machines install it as root, and without TLS others could put in another one."
                if self.source.lower().startswith("http:")
                else None,
                reason="source",
            )
        if self.ssh_from is not None:
            try:
                ipaddress.ip_network(self.ssh_from)
            except ValueError as error:
                raise LaunchError(
                    "--ssh-from must be a network, such as 203.0.113.7/32.",
                    found=str(error),
                    reason="ssh-from",
                ) from error

    @property
    def startup_file(self) -> str:
        """File name of the startup script."""
        return f"{self.name}-startup.sh"

    @property
    def cluster_file(self) -> str:
        """File name of the cluster file, for ``tfmuster config --cluster``."""
        return f"{self.name}.yaml"


def check_words(*words: str | None) -> None:
    """Raise LaunchError unless each word can only be a provider's name, not an option, a list or a file."""
    for word in words:
        if word is not None and (not _WORD.fullmatch(word) or "://" in word):
            raise LaunchError(
                "Names of zones, types and images must have only letters, digits and . _ / : + @ -",
                found=ascii(word),
                reason="word",
            )


def startup_script(machines: Machines) -> str:
    """Return the script that each machine runs as root at startup, to install R, Python and tfmuster."""
    packages = shlex.join(DEBIAN_PACKAGES)
    wanted = [
        f"{_HOME}/source[{'cuda' if machines.gpus else 'tensorflow'}]",
        "numpy>=1.26,<2",  # Debian's reticulate supports only numpy 1
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
{_DOWNLOAD} {shlex.quote(machines.source)} | tar -xz --strip-components=1 -C {_HOME}/source
python3 -m venv {_HOME}/venv
{_HOME}/venv/bin/pip install --no-cache-dir {shlex.join(wanted)}
R CMD INSTALL {_HOME}/source
ln -sf {_HOME}/venv/bin/tfmuster /usr/local/bin/tfmuster
touch {_HOME}/ready
"""


def rent_script(machines: Machines, commands: Iterable[str], addresses: str, afterwards: str) -> str:
    """Return the script: it writes the startup script, runs the commands, and writes the cluster file."""
    head = f"""#!/usr/bin/env bash
# Rents {machines.workers} machines for the job {machines.name}. Read it before you run it: it costs money.
set -euo pipefail

"""
    # Unlike a here-document, no line of the script can end this.
    startup = f"printf '%s' {shlex.quote(startup_script(machines))} >{machines.startup_file}\n\n"
    cluster = f"\necho 'worker:' >{machines.cluster_file}"
    return head + startup + "".join(f"{each}\n" for each in commands) + cluster + addresses + afterwards


def one_command(words: Iterable[str]) -> str:
    """Quote the words, and put each option on its own line."""
    first, *rest = [shlex.quote(word) for word in words]
    lines = [first]
    for word in rest:
        if word.lstrip("'").startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return " \\\n  ".join(lines)
