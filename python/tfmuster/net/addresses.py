"""Check one address, tell whether two addresses name the same host, and exempt hosts from proxies.

An address is ``host:port``, where the host is a DNS name, an IPv4 address or an ``[IPv6]`` address.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping

#: 253 characters of host name (RFC 1035), brackets, colon and port, with room to spare.
LONGEST_ADDRESS = 270

# Underscores are no part of RFC 1123 host names, but container names have them, and resolvers accept them.
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}\.?", re.ASCII)
# A last label of digits only is never a name: resolvers read it as (odd forms of) IPv4.
_LIKE_IPV4 = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BLANK = re.compile(r"\s")
_SHELL = re.compile(r"[`$&|;<>(){}!\"'\\*?~#^%=]")
# Matches most addresses at once: a check of ten thousand must take milliseconds.
_USUAL = re.compile(
    r"([a-z](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)*):([1-9][0-9]{0,3})"
)

_LOOPBACK_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}


def split_address(address: str) -> tuple[str, int]:
    """Split a valid address into its host, without brackets, and its port.

    >>> split_address("[::1]:2222")
    ('::1', 2222)
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def plain_address(address: str) -> str:
    """Return an IP address without a zone, and an IPv4 address that is written as IPv6 as IPv4.

    >>> plain_address("::ffff:10.0.0.5")
    '10.0.0.5'
    """
    plain = address.partition("%")[0]
    try:
        parsed = ipaddress.ip_address(plain)
    except ValueError:
        return plain
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def address_problems(text: str) -> Iterator[str]:
    """Yield the code of each problem with one address; nothing if it is valid."""
    usual = _USUAL.fullmatch(text)
    if usual and len(text) <= 200:
        return
    if not text.strip():
        yield "blank-in-address" if text else "empty-address"
        return
    if len(text) > LONGEST_ADDRESS:
        yield "address-too-long"
        return
    bad_characters = list(_bad_characters(text))
    yield from bad_characters
    if "several-addresses" in bad_characters:
        return
    _scheme, mark, rest = text.rpartition("://")
    if mark:
        yield "scheme-in-address"
    _user, mark, rest = rest.rpartition("@")
    if mark:
        yield "user-in-address"
    rest, mark, _path = rest.partition("/")
    if mark:
        yield "path-in-address"
    host, port, problem = _split(rest)
    if problem:
        yield problem
        return
    if not bad_characters and (problem := _host_problem(host)):
        yield problem
    problem = _port_problem(port)
    if problem and not (bad_characters and problem == "port-not-a-number"):
        yield problem


def _bad_characters(text: str) -> Iterator[str]:
    if "," in text:
        yield "several-addresses"
    if _CONTROL.search(text):
        yield "control-character"
    if _BLANK.search(_CONTROL.sub("", text)):
        yield "blank-in-address"
    if not text.isascii() and any(c > "\x9f" and not c.isspace() for c in text):
        yield "not-ascii"
    if _SHELL.search(text):
        yield "shell-character"


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Return the host (with brackets), the port or None, and a problem that rules out further checks."""
    if text.startswith("["):
        inside, closed, after = text.partition("]")
        if not closed or (after and not after.startswith(":")):
            return text, None, "ipv6-invalid"
        return inside + "]", after[1:] or None, None
    if text.count(":") > 1:
        bare = _ip(text) or _ip(text.rpartition(":")[0])
        return text, None, "ipv6-without-brackets" if bare else "too-many-colons"
    host, _, port = text.partition(":")
    return host, port or None, None


def _host_problem(host: str) -> str | None:
    if not host or host == "[]":
        return "host-empty"
    if host.startswith("["):
        address = _ip(host[1:-1])
        if address is None or address.version == 4:
            return "ipv6-invalid"
        return None if int(address) else "wildcard-host"
    if _LIKE_IPV4.fullmatch(host):
        if _ip(host) is None:
            return "ipv4-invalid"
        return "wildcard-host" if host == "0.0.0.0" else None
    return None if _NAME.fullmatch(host) and len(host.rstrip(".")) <= 253 else "host-invalid"


def _port_problem(port: str | None) -> str | None:
    if port is None:
        return "port-missing"
    if not (port.isascii() and port.isdigit()):
        return "port-not-a-number"
    if not port.strip("0"):
        return "port-zero"
    if not _PORT.fullmatch(port):
        return "port-not-a-number" if port.startswith("0") else "port-too-large"
    return "port-too-large" if int(port) > 65535 else None


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    # A zone (fe80::1%eth0) means something on one machine only.
    with contextlib.suppress(ValueError):
        return None if "%" in text else ipaddress.ip_address(text)
    return None


def host_key(host: str) -> str:
    """Return a key that is equal for all spellings of one host: ``localhost`` for every loopback address.

    TensorFlow listens on all interfaces, so 127.0.0.1 and 127.0.0.2 can't share a port either.
    """
    host = host.lower().rstrip(".")
    address = _ip(host) if ":" in host or host[:1].isdigit() else None
    if address is not None:
        address = getattr(address, "ipv4_mapped", None) or address
        return "localhost" if address.is_loopback else str(address)
    return "localhost" if host in _LOOPBACK_NAMES or host.endswith(".localhost") else host


def is_loopback(address: str) -> bool:
    """Return whether only the machine itself can reach this valid address."""
    return host_key(split_address(address)[0]) == "localhost"


#: The variables by which gRPC finds a proxy, the one that it prefers first.
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
#: Those with the exceptions, likewise.
NO_PROXY = ("no_grpc_proxy", "no_proxy")


def sent_to_proxy(environ: Mapping[str, str], hosts: Iterable[str]) -> list[str]:
    """Return the hosts that gRPC would reach through a proxy in this environment.

    An exception is the end of a host's name.
    """
    if not any(map(environ.get, PROXIES)):
        return []
    text = next(filter(None, map(environ.get, NO_PROXY)), "")
    exceptions = tuple(entry.strip().lower() for entry in text.split(",") if entry.strip())
    return [host for host in hosts if not host.lower().endswith(exceptions)]


def proxy_exceptions(environ: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Return an environment's variables that name exceptions from HTTP proxies, with these hosts added.

    gRPC sends its connections through ``http_proxy``, ``https_proxy`` or ``grpc_proxy``, also those to
    loopback, and waits without end for a proxy that does not answer. Exceptions are in ``no_grpc_proxy`` or,
    where that is not set, in ``no_proxy``
    (https://grpc.github.io/grpc/core/md_doc_environment_variables.html).
    """
    hosts = list(hosts)

    def extended(exceptions: str) -> str:
        entries = [entry for text in exceptions.split(",") if (entry := text.strip())]
        return ",".join(dict.fromkeys([*entries, *hosts]))

    general = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return {
        # "*" exempts every host. Programs know it alone, and not in a list.
        "no_proxy": general if general.strip() == "*" else extended(general),
        "no_grpc_proxy": extended(environ.get("no_grpc_proxy") or general),
    }
