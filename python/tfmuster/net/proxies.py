"""Keep the traffic between the tasks of a job away from HTTP proxies.

gRPC sends its connections through ``http_proxy``, ``https_proxy`` or ``grpc_proxy``, also those to loopback,
and waits without end for a proxy that does not answer. Exceptions are in ``no_grpc_proxy`` or, where that is
not set, in ``no_proxy`` (https://grpc.github.io/grpc/core/md_doc_environment_variables.html).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: Exempts every host. Programs know it alone, and not in a list.
_ALL: Final = "*"


def proxy_exceptions(environ: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """Return the variables of an environment that name exceptions from proxies, with these hosts in them.

    Parameters
    ----------
    environ : mapping of str
        The environment. Its own exceptions are kept.
    hosts : iterable of str
        Host names and IP addresses, IPv6 without brackets.
    """
    hosts = list(hosts)
    general = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    grpc = environ.get("no_grpc_proxy") or general
    return {
        "no_proxy": general if general.strip() == _ALL else _joined(general, hosts),
        "no_grpc_proxy": _joined(grpc, hosts),
    }


def _joined(given: str, hosts: Iterable[str]) -> str:
    entries = [entry for text in given.split(",") if (entry := text.strip())]
    return ",".join(dict.fromkeys([*entries, *hosts]))
