"""Report what is installed on this machine and what it means for training on several workers.

This process imports nothing slow; a child process lists the devices, and only on request.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from .. import __version__
from ..cluster.spec import hosts_of
from ..cluster.tf_config import parse_tf_config
from ..collectives.group import library_path
from ..environment import MNIST_VARIABLE
from ..errors import TfmusterError
from ..launcher.engines.base import availability
from ..launcher.engines.local import HOST
from ..net.addresses import NO_PROXY, PROXIES, proxy_exceptions, sent_to_proxy
from ..net.ports import held_ports
from ..rendezvous.task.port_guard import guarding_works
from ..system.ask import NoAnswerError, ask
from ..system.compiled import NotCompiled
from ..system.interpreter import python_executable, rscript_executable, run_code
from ..system.tensorflow_import import HOW_TO_INSTALL, is_installed
from ..system.versions import tensorflow_version, version_of
from ..tracking.record.hidden_values import without_secret

_PACKAGES = ("keras", "tf-keras", "numpy", "click", "orjson", "PyYAML", "psutil", "rich")
_MODULES = ("bz2", "ctypes", "lzma", "sqlite3", "ssl")
_R_PACKAGES = ("tfmuster", "reticulate", "tensorflow", "keras3", "keras", "sparklyr")
_VARIABLES = (
    "TF_CONFIG",
    "TF_USE_LEGACY_KERAS",
    "CUDA_VISIBLE_DEVICES",
    "RETICULATE_PYTHON",
    MNIST_VARIABLE,
    *PROXIES,
    *NO_PROXY,
)
_DEVICES = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
print(json.dumps([device.name for device in tf.config.list_physical_devices()]))
"""
_R = """
have <- function(p) tryCatch(as.character(utils::packageVersion(p)), error = function(e) NA)
packages <- c(%s)
cat(as.character(getRversion()), Sys.getenv("R_HOME"), sep = "\\n", fill = FALSE); cat("\\n")
for (p in packages) cat(p, have(p), sep = "\\t", fill = TRUE)
"""


def doctor(*, devices: bool = True, timeout: float = 120.0) -> dict[str, Any]:
    """Report on this machine's environment.

    Parameters
    ----------
    devices : bool
        List the devices that TensorFlow finds, in a child process. This takes some seconds.
    timeout : float
        Time limit for that, in seconds.

    Returns
    -------
    dict
        ``tfmuster``, ``python``, ``packages``, ``r``, ``machine``, ``engines``, ``environment``, ``devices``
        and ``notes``. ``engines`` says whether each can start jobs from here, or why not. ``devices`` is None
        unless requested. ``notes`` are sentences on what you must know before you run several workers.
    """
    report: dict[str, Any] = {
        "tfmuster": __version__,
        "python": {
            "version": platform.python_version(),
            "executable": python_executable(),
            "prefix": sys.prefix,
            "lacks": _missing_modules(),
        },
        "packages": {
            "tensorflow": tensorflow_version(),
            **{package: version_of(package) for package in _PACKAGES},
        },
        "r": _r_report(),
        "machine": _machine(),
        "engines": availability(),
        "environment": {
            name: without_secret(name, os.environ[name]) for name in _VARIABLES if name in os.environ
        },
        "devices": _devices(timeout) if devices else None,
    }
    report["notes"] = notes(report)
    return report


def _missing_modules() -> dict[str, str]:
    """Return modules of the standard library that this Python can't import, and why."""
    missing = {}
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing[name] = str(error)
    return missing


def _r_report() -> dict[str, Any] | None:
    """Return the versions of R and its packages, or None without R."""
    rscript = rscript_executable()
    if rscript is None:
        return None
    code = _R % ", ".join(f'"{package}"' for package in _R_PACKAGES)
    try:
        # R CMD check sets R_TESTS for its own session only.
        answer = ask(rscript, "-e", code, seconds=30, env={**os.environ, "R_TESTS": ""})
    except NoAnswerError as error:
        return {"executable": rscript, "version": None, "problem": str(error)}
    if answer.code != 0:
        problem = f"{rscript} ends with exit code {answer.code}: {answer.first_line}"
        return {"executable": rscript, "version": None, "problem": problem}
    version, home, *rows = answer.output.splitlines()
    packages = dict(row.strip().split("\t") for row in rows if "\t" in row)
    return {
        "executable": rscript,
        "version": version.strip(),
        "home": home.strip(),
        "packages": {name: None if value == "NA" else value for name, value in packages.items()},
    }


def _machine() -> dict[str, Any]:
    import psutil

    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "name_resolves": _resolves(socket.gethostname()),
        "free_port": _free_port(),
        "ports_range": _ports_range(),
        "gpu_driver": shutil.which("nvidia-smi") is not None,
        "port_guard": guarding_works() or "works",
        "sums": _sums(),
    }


def _sums() -> str:
    """Return ``C`` if workers here sum gradients by the compiled library, else why by numpy."""
    try:
        library_path()
    except NotCompiled as error:
        return f"numpy: {error}"
    return "C"


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def _free_port() -> int | None:
    try:
        with held_ports(1) as ports:
            return ports[0]
    except OSError:
        return None


def _ports_range() -> str | None:
    """Return Linux's range of ports for automatic use, or None on other systems."""
    with contextlib.suppress(OSError):
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
        return "-".join(text.split())
    return None


def _devices(timeout: float) -> list[str] | str:
    """Return TensorFlow's devices, or why they can't be listed."""
    if not is_installed("tensorflow"):
        return "TensorFlow is not installed"
    try:
        answer = ask(*run_code(_DEVICES), seconds=timeout)
    except NoAnswerError:
        return f"TensorFlow did not start within {timeout:.0f} s"
    with contextlib.suppress(IndexError, orjson.JSONDecodeError):
        if answer.code == 0:
            return [str(name) for name in orjson.loads(answer.output.splitlines()[-1])]
    lines = answer.errors.strip().splitlines()
    return f"TensorFlow does not start: {lines[-1] if lines else f'exit code {answer.code}'}"


def notes(report: dict[str, Any]) -> list[str]:
    """Return sentences on what a report means for running several workers."""
    packages, r = report["packages"], report["r"]
    sentences = [
        "A TensorFlow worker listens on 0.0.0.0, that is on every network interface, whatever address "
        "TF_CONFIG names, and runs what it is sent. " + _guard_note(report["machine"]["port_guard"])
    ]
    if report["machine"]["sums"] != "C":
        sentences.append(
            f"Workers here sum gradients with numpy, which takes two to five times as long as C: "
            f"{report['machine']['sums'].partition(': ')[2]}."
        )
    for name, why in report["python"]["lacks"].items():
        sentences.append(
            f"This Python can't import {name} ({why}). Either it was built without it, or R, which puts the "
            "system's libraries first, loads those of another Python: use the system's Python."
        )
    if packages["tensorflow"] is None:
        sentences.append(
            f"TensorFlow is not installed for this Python. To train here: {HOW_TO_INSTALL}. "
            "Launching on other machines, checking clusters and following runs work without it."
        )
    if r is None:
        sentences.append("R is not on PATH. The command line and Python work without it.")
    elif r.get("packages"):
        reticulate = r["packages"].get("reticulate")
        if reticulate is None:
            sentences.append("R has no reticulate: install.packages('reticulate').")
        elif _older(reticulate, (1, 38)):
            if not _older(packages["numpy"] or "0", (2,)):
                sentences.append(
                    f"reticulate {reticulate} can't read numpy {packages['numpy']}: pip install 'numpy<2', "
                    "or update reticulate."
                )
            if sys.version_info >= (3, 12):
                sentences.append(f"reticulate {reticulate} needs Python 3.11 or older: update reticulate.")
    if "TF_CONFIG" in report["environment"]:
        sentences.extend(_tf_config_notes(report["environment"]["TF_CONFIG"]))
    sentences.extend(_proxy_notes(report["environment"]))
    if not report["machine"]["name_resolves"]:
        sentences.append("This machine's host name does not resolve: use its IP address in a cluster.")
    return sentences


def _guard_note(guard: str) -> str:
    if guard == "works":
        return (
            "On this machine tfmuster lets only the workers of a job connect to each other. What they send "
            "is not encrypted: use a network you trust."
        )
    return (
        f"tfmuster can't guard the port here ({guard}): everybody who reaches it, other users of this "
        "machine included, can run commands as you while a job runs. Use a machine and a network you trust."
    )


def _tf_config_notes(text: str) -> list[str]:
    from ..cluster.check import check_cluster

    try:
        findings = check_cluster(text).findings
    except TfmusterError as error:
        return [f"TF_CONFIG is set and can't be used: {error}"]
    return [f"TF_CONFIG is set: {finding.where}: {finding.message}" for finding in findings]


def _proxy_notes(environment: Mapping[str, str]) -> list[str]:
    """Return what the proxies of an environment mean for the tasks, of this machine or of TF_CONFIG."""
    proxies = [name for name in PROXIES if environment.get(name)]
    if not proxies:
        return []
    hosts = [HOST]
    with contextlib.suppress(TfmusterError):
        hosts += hosts_of(parse_tf_config(environment.get("TF_CONFIG", "")).cluster)
    hosts = list(dict.fromkeys(hosts))
    through = sent_to_proxy(environment, hosts)
    named = f"{' and '.join(proxies)} {'are' if len(proxies) > 1 else 'is'} set"
    if not through:
        return [f"{named}; no_grpc_proxy or no_proxy excepts the tasks here ({', '.join(hosts)})."]
    export = proxy_exceptions(environment, hosts)["no_grpc_proxy"]
    return [
        f"{named}, and TensorFlow would connect to {', '.join(through)} through the proxy. Workers of "
        "tfmuster do not, because it adds the addresses of all tasks to no_proxy and no_grpc_proxy. For "
        f"programs without tfmuster: export no_grpc_proxy={export}"
    ]


def _older(version: str, than: tuple[int, ...]) -> bool:
    numbers = tuple(int(part) for part in version.replace("-", ".").split(".") if part.isdigit())
    return numbers[: len(than)] < than
