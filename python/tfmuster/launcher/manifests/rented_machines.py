"""Write a bash script that rents machines for a job, from Google Compute Engine or Amazon EC2.

The script is only printed. You read it, change it if needed, and run it. It starts machines with R, Python
and tfmuster, allows connections only between them, and writes a cluster file with their addresses. Then it
runs a program on them, and it deletes them: all that costs money has a mark, by which it is found even if the
answer to a command was lost.

For SkyPilot, which rents machines of many providers, it is a task file, and the machines have Python alone.
Every value is checked, and the templates of ``templates/`` quote it for the shell.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...errors import LaunchError
from .pod_job import check_label

if TYPE_CHECKING:
    from jinja2 import Environment

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
_TEMPLATES = Path(__file__).with_name("templates")
# Without commas, which separate values in gcloud's lists, and blanks, which do so in aws's.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:+@-]{0,254}", re.ASCII)
_URL = re.compile(r"https://[!-~]{1,2000}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The settings of machines of any provider. Raises LaunchError for an invalid value."""

    #: The template of what rents them.
    TEMPLATE: ClassVar[str]
    #: Settings that are no names of the provider's.
    OTHERS: ClassVar[tuple[str, ...]] = ("source", "ssh_from")

    #: A DNS label. Names of machines, rules and files start with it.
    name: str
    #: Number of machines.
    workers: int
    #: URL of an archive (``.tar.gz``) of tfmuster's repository, which has both packages.
    source: str
    #: Port on which TensorFlow listens.
    port: int = 2222
    #: Whether to install TensorFlow with CUDA.
    gpus: bool = False

    def __post_init__(self) -> None:
        check_label(self.name, "job's name")
        check_label(f"{self.name}-{self.workers - 1}", "machine's name")
        if not _URL.fullmatch(self.source):
            raise LaunchError(
                "The source of tfmuster must be the https URL of an archive.",
                found=ascii(self.source),
                fix="The machines install it as root, and without TLS others could put in another one."
                if self.source.lower().startswith("http:")
                else None,
                reason="source",
            )
        words = (text for name, text in vars(self).items() if name not in self.OTHERS)
        _check_words(*(text for text in words if isinstance(text, str)))

    def script(self) -> str:
        """Return the commands that rent the machines, or SkyPilot's task file."""
        return _filled(self.TEMPLATE, self)


@dataclass(frozen=True, kw_only=True)
class ProviderMachines(Machines):
    """The settings of machines of one provider."""

    #: The provider's Debian 12.
    PLAIN_IMAGE: ClassVar[str] = ""
    #: The command that succeeds on a spot machine when it is about to be reclaimed; see `--notice-command`.
    NOTICE: ClassVar[str]
    #: Whether machines limit their time themselves, since the provider has no such limit.
    SHUTS_DOWN: ClassVar[bool] = False

    machine_type: str
    #: An image with Debian or a derivative, and Python 3.10 to 3.12.
    image: str
    disk_gb: int = 50
    #: Network, in CIDR notation, from which ssh is allowed. By default, no rule allows ssh.
    ssh_from: str | None = None
    #: After how many hours the machines are deleted.
    hours: int = 24
    #: Whether to rent spot machines, which are cheaper and can be reclaimed at any time.
    spot: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gpus and self.image == self.PLAIN_IMAGE:
            raise LaunchError(
                "For GPUs, the image must have a GPU driver, and Debian's own image does not.",
                found=self.image,
                fix="Choose an image of the provider with a driver and Python 3.10 to 3.12.",
                reason="image",
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

    def startup_script(self) -> str:
        """Return the script that each machine runs as root, to install R, Python and tfmuster."""
        return _filled("startup.sh", self, packages=DEBIAN_PACKAGES, shuts_down=self.SHUTS_DOWN)

    def script(self) -> str:
        """See :class:`Machines`."""
        return _filled(self.TEMPLATE, self, startup=self.startup_script(), NOTICE=self.NOTICE)


@dataclass(frozen=True, kw_only=True)
class GceMachines(ProviderMachines):
    """Google Compute Engine machines; see ``tfmuster manifest gce --help``."""

    TEMPLATE, PLAIN_IMAGE = "gce.sh", "debian-12"
    NOTICE = (
        'curl -sf -H "Metadata-Flavor: Google" '
        "http://metadata.google.internal/computeMetadata/v1/instance/preempted | grep -q TRUE"
    )

    zone: str
    machine_type: str = "e2-standard-4"
    image: str = PLAIN_IMAGE
    image_project: str = "debian-cloud"
    #: A network that is there. By default, the job gets one of its own.
    network: str | None = None
    project: str | None = None
    accelerator: str | None = None
    accelerators: int = 1


@dataclass(frozen=True, kw_only=True)
class Ec2Machines(ProviderMachines):
    """Amazon EC2 machines; see ``tfmuster manifest ec2 --help``."""

    TEMPLATE = "ec2.sh"
    #: Debian's name for its newest image: https://wiki.debian.org/Cloud/AmazonEC2Image
    PLAIN_IMAGE = "resolve:ssm:/aws/service/debian/release/12/latest/amd64"
    NOTICE = (
        'token=$(curl -sfX PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" '
        "http://169.254.169.254/latest/api/token) && "
        'curl -sf -H "X-aws-ec2-metadata-token: $token" '
        "http://169.254.169.254/latest/meta-data/spot/instance-action"
    )
    SHUTS_DOWN = True

    machine_type: str = "m6i.xlarge"
    image: str = PLAIN_IMAGE
    region: str | None = None
    key_name: str | None = None
    subnet: str | None = None
    vpc: str | None = None


@dataclass(frozen=True, kw_only=True)
class SkyPilotMachines(Machines):
    """Machines that SkyPilot rents; see ``tfmuster manifest skypilot --help``."""

    TEMPLATE = "skypilot.yaml"

    command: tuple[str, ...]
    accelerators: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in self.command:
            if not word.isprintable():
                raise LaunchError(
                    "The program and its arguments must be printable text.", found=ascii(word), reason="text"
                )
        if self.command[0].lower().endswith(".r"):
            raise LaunchError(
                "The program must not need R, which SkyPilot's machines don't have.",
                found=self.command[0],
                fix="Rent machines with tfmuster manifest gce or ec2, or run an image with R on Kubernetes.",
                reason="command",
            )


def _check_words(*words: str) -> None:
    """Raise LaunchError unless each word can only be a provider's name, not an option, a list or a file."""
    for word in words:
        if not _WORD.fullmatch(word) or "://" in word:
            raise LaunchError(
                "Names of zones, types and images must have only letters, digits and . _ / : + @ -",
                found=ascii(word),
                reason="word",
            )


def _filled(template: str, machines: Machines, **more: object) -> str:
    return _environment().get_template(template).render(vars(machines), **more)


@cache
def _environment() -> Environment:
    # Its import takes 0.1 s of the command line's start.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def quoted(value: object) -> Markup:
        """Quote a value for the shell; what the template itself has written, as by a macro, is Markup."""
        return value if isinstance(value, Markup) else Markup(shlex.quote(str(value)))

    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=quoted,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
