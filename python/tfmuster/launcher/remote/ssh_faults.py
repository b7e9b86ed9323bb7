"""Explain ssh's error messages, with the cause and the fix."""

from __future__ import annotations

import re
from typing import Any

from ... import __version__
from ...options.hints import Hint

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


def explain_ssh_failure(host: str, said: str, code: int | None, seconds: float) -> dict[str, Any]:
    """Explain why a host can't be used: ``code``, ``message``, ``fix`` and ``said``, ssh's last line.

    Parameters
    ----------
    host : str
        The host in ssh's command.
    said : str
        Error output of ssh, and output of a login shell.
    code : int or None
        Exit code of ssh; None if it had to be killed.
    seconds : float
        Length of the wait, in seconds.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else ""
    for pattern, name, text, fix in _FAULTS:
        if match := re.search(pattern, said):
            known = {"version": __version__, "remote_python": Hint("remote_python")}
            fields = {"host": host, **known, **match.groupdict()}
            return {"code": name, "message": text.format(**fields), "fix": fix.format(**fields), "said": last}
    if code is None and not lines:
        how = f"nothing came from it within {seconds:.0f} s"
    else:
        how = "no agent could be started there" + (f" (exit code {code})" if code else "")
    return {"code": "no-agent", "message": how, "fix": f"see what `ssh {host} true` says", "said": last}
