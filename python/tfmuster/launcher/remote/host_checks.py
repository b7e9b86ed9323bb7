"""Find why hosts can't take part, from their agents' answers or ssh's messages, and names for all hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ... import __version__
from ...errors import LaunchError
from ...options.hints import Hint
from ...system.interpreter import r_version
from ...system.program_files import package_digest
from ...system.versions import installed_versions
from ...words import Code, Words
from ..capacity import Capacity

#: Difference of clocks above which there is a warning, in seconds.
CLOCK_SECONDS = 5.0

_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "python": "Python", "r": "R"}

Hellos = Mapping[str, Mapping[str, Any]]


def hosts_error(
    hellos: Hellos, names: Mapping[str, list[str]], tasks: Mapping[str, int] | None = None
) -> LaunchError | None:
    """Make one error with the problems of all hosts; None if there are none.

    `hellos` has the answer of each host, or ``{"fault": ...}``, and `names` the names by which each host was
    looked up, the best first. `tasks` are the numbers of tasks that hosts must carry, if any must.
    """
    findings = _findings(hellos, names, tasks or {})
    return refusal(findings, len(hellos)) if findings else None


def refusal(findings: list[dict[str, str]], hosts: int) -> LaunchError:
    """Make the error from findings (``host``, ``code``, ``message``, ``fix``) and the number of hosts."""
    bad = len({finding["host"] for finding in findings})
    who = f"None of the {hosts} hosts can" if bad == hosts else f"{bad} of the {hosts} hosts can't"
    return LaunchError(
        f"{who} take part." if hosts > 1 else "The host can't take part.",
        found=_by_host(findings, "message"),
        fix=_by_host(findings, "fix"),
        reason="hosts",
        findings=findings,
    )


def peer_names(hellos: Hellos, names: Mapping[str, list[str]]) -> dict[str, str]:
    """Return for each host the best name that all hosts that answered can look up, if it has one."""
    answers = [hello["names"] for hello in hellos.values() if "fault" not in hello]
    common = {
        host: [name for name in candidates if all(name in known[host] for known in answers)]
        for host, candidates in names.items()
    }
    return {host: candidates[0] for host, candidates in common.items() if candidates}


def clock_warnings(hellos: Hellos) -> list[str]:
    """Return a line for each host whose clock differs from this machine's."""
    return [
        f"the clock of {host} is {_span(abs(hello['ahead']))} {'ahead' if hello['ahead'] > 0 else 'behind'}; "
        "the times in its log are by that clock."
        for host, hello in hellos.items()
        if abs(hello["ahead"]) > CLOCK_SECONDS
    ]


def _findings(
    hellos: Hellos, names: Mapping[str, list[str]], tasks: Mapping[str, int]
) -> list[dict[str, str]]:
    findings = []

    def add(host: str, code: str, message: str, fix: str) -> None:
        findings.append({"host": host, "code": code, "message": message, "fix": fix})

    reached = peer_names(hellos, names)
    usual = {key: _usual(hellos, key) for key in _NAMES}
    stale = _other_files(hellos)
    for host, hello in hellos.items():
        if fault := hello.get("fault"):
            add(host, **fault)
            continue
        if hello["tfmuster"] != __version__:
            add(
                host,
                "tfmuster-version",
                f"tfmuster {hello['tfmuster']}, here {__version__}",
                f"install tfmuster {__version__} there",
            )
        elif hello.get("package") != package_digest():
            message = f"its files of tfmuster {__version__} are not those here"
            add(host, "tfmuster-files", message, "install the same tfmuster there as here")
        for key, name in _NAMES.items():
            version = hello["versions"].get(key, usual[key])
            if version != usual[key]:
                add(
                    host,
                    f"{key}-version",
                    f"{_has(name, version)}, the others {_has(name, usual[key])}",
                    f"install the same {name} on every host",
                )
        for name, other in stale.get(host, {}).items():
            script = name == next(iter(hello["files"]))
            sent = Hint("copy", True) if script else Hint("files", name)
            fix = Words("copy it there, or send that of this machine to all with {}", sent)
            add(host, "file", f"{name} has other code than on {other}", fix)
        if problem := hello["problem"]:
            add(host, problem["reason"], problem["found"] or problem["message"], _remote_fix(problem))
        if host in tasks and (found := (capacity := Capacity(**hello["capacity"])).excess(tasks[host])):
            most = capacity.most
            fewer = f"start at most {most} processes there" if most else "free some memory there"
            fix = Words("{}, or set {}", fewer, Hint("oversubscribe", True))
            add(host, "oversubscribed", found, fix)
        if host not in reached:
            blind = [
                other
                for other, seen in hellos.items()
                if "fault" not in seen and not set(names[host]) & set(seen["names"][host])
            ]
            config = f"HostName of {host} in ~/.ssh/config"
            add(
                host,
                "name",
                f"{' and '.join(names[host])} can't be looked up on {', '.join(blind) or 'every host'}",
                Words("say how the others reach it: {}", Code(config, config, f"--address {host}=ADDRESS")),
            )
    return findings


def _other_files(hellos: Hellos) -> dict[str, dict[str, str]]:
    """Return for each host the files of the program that are other ones than most hosts have.

    With each is the first of the hosts that have the usual one. What a host does not have is not compared: it
    may have it elsewhere, as a package.
    """
    having: dict[str, dict[str, str]] = {}
    for host, hello in hellos.items():
        for name, digest in hello.get("files", {}).items():
            having.setdefault(name, {})[host] = digest
    stale: dict[str, dict[str, str]] = {}
    for name, digests in having.items():
        ((usual, _),) = Counter(digests.values()).most_common(1)
        first = next(host for host, digest in digests.items() if digest == usual)
        for host, digest in digests.items():
            if digest != usual:
                stale.setdefault(host, {})[name] = first
    return stale


def _by_host(findings: list[dict[str, str]], key: str) -> str:
    """Return a line for each text, after the hosts that it applies to."""
    hosts: dict[str, list[str]] = {}
    for finding in findings:
        if finding[key]:
            hosts.setdefault(finding[key], []).append(finding["host"])
    return "\n         ".join(f"{', '.join(names)}: {text}" for text, names in hosts.items())


def _remote_fix(problem: Mapping[str, object]) -> str:
    if problem["reason"] == "script":
        return Words("put the script there at the same path, or send it with {}", Hint("copy", True))
    return str(problem["fix"] or "").rstrip(".")


def _usual(hellos: Hellos, key: str) -> str:
    """Return the version that most hosts have; with a tie, that of this machine, else of the first host."""
    versions = Counter(
        hello["versions"][key] for hello in hellos.values() if key in hello.get("versions", {})
    )
    most = max(versions.values(), default=0)
    tied = [version for version, count in versions.items() if count == most]
    if len(tied) > 1:
        # The order of the hosts may be that in which an engine has started them, which is chance.
        here = r_version() if key == "r" else installed_versions()[key]
        tied.sort(key=lambda version: version != here)
    return tied[0] if tied else ""


def _has(name: str, version: str) -> str:
    return f"no {name}" if version == "none" else f"{name} {version}"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


#: Pattern in ssh's message, code, meaning, fix. The first match counts.
_FAULTS = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "host-key-changed",
        "its host key is not the one known here",
        "if the machine is a new one: ssh-keygen -R {host}; if not, somebody may be in between",
    ),
    (
        r"Host key verification failed|No \S+ host key is known",
        "host-key-unknown",
        "its host key is not known here",
        "log in once with `ssh {host}`, compare the key, and accept it",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "no-login",
        "it does not let this user in without a password",
        "`ssh-copy-id {host}`, or ssh-add the key; `ssh -o BatchMode=yes {host}` must work",
    ),
    (
        r"Could not resolve hostname",
        "name-unknown",
        "its name does not resolve here",
        "check the spelling, DNS, /etc/hosts, and ~/.ssh/config",
    ),
    (
        r"Connection refused",
        "no-sshd",
        "it refuses connections: no ssh server listens there",
        "start sshd there, or give its port in ~/.ssh/config",
    ),
    (
        r"No route to host|Connection timed out|Network is unreachable|timed out",
        "unreachable",
        "it does not answer",
        "check that it is up, and that the network and its firewall let ssh through",
    ),
    (
        r"kex_exchange_identification|Connection (closed|reset) by",
        "busy",
        "its ssh server ends the connection before the login",
        "see its log; MaxStartups in its sshd_config limits simultaneous logins",
    ),
    (
        r"No module named '?tfmuster",
        "no-tfmuster",
        "tfmuster is not installed in that Python",
        "install tfmuster {version} there, or name another Python with {remote_python}",
    ),
    (
        r"No module named '?(?P<module>[\w.]+)",
        "no-module",
        "tfmuster can't start: no module {module} in that Python",
        "install it there, or name another Python with {remote_python}",
    ),
    (
        r"(?i)not found|no such file|permission denied|unknown command",
        "no-python",
        "there is no such Python",
        "name the one that tfmuster is installed in with {remote_python}",
    ),
)


def explain_ssh_failure(host: str, output: str, code: int | None, seconds: float) -> dict[str, str]:
    """Explain why a host can't be used: ``code``, ``message`` with ssh's last line, and ``fix``.

    `output` is the error output of ssh, and the output of a login shell. The exit `code` of ssh is None if it
    had to be killed after `seconds`.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = f" ({lines[-1][:300]})" if lines else ""
    for pattern, name, text, fix in _FAULTS:
        if match := re.search(pattern, output):
            known = {"version": __version__, "remote_python": Hint("remote_python")}
            fields = {"host": host, **known, **match.groupdict()}
            return {"code": name, "message": text.format(**fields) + last, "fix": fix.format(**fields)}
    if code is None and not lines:
        how = f"nothing came from it within {seconds:.0f} s"
    else:
        how = "no agent could be started there" + (f" (exit code {code})" if code else "")
    return {"code": "no-agent", "message": how + last, "fix": f"see what `ssh {host} true` says"}
