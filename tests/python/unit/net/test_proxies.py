"""Exceptions from proxies: those of the user stay, and the tasks' hosts are added."""

from __future__ import annotations

import pytest

from tfmuster.cluster.spec import checked_cluster, hosts_of
from tfmuster.net.addresses import proxy_exceptions, sent_to_proxy

HOSTS = ["::1", "node1"]
ALL = "::1,node1"


@pytest.mark.parametrize(
    ("environ", "general", "grpc"),
    [
        ({}, ALL, ALL),
        ({"no_proxy": ""}, ALL, ALL),
        ({"NO_PROXY": "a.org, node1"}, "a.org,node1,::1", "a.org,node1,::1"),
        ({"no_proxy": "a.org", "NO_PROXY": "b.org"}, f"a.org,{ALL}", f"a.org,{ALL}"),
        ({"no_grpc_proxy": "c.org"}, ALL, f"c.org,{ALL}"),
        # In a list, the sign for all hosts means no host at all to curl and Python.
        ({"no_proxy": "*"}, "*", f"*,{ALL}"),
    ],
)
def test_what_the_user_has_set_stays(environ: dict[str, str], general: str, grpc: str) -> None:
    assert proxy_exceptions(environ, HOSTS) == {"no_proxy": general, "no_grpc_proxy": grpc}


@pytest.mark.parametrize(
    ("environ", "through"),
    [
        ({}, []),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": ""}, []),
        ({"http_proxy": "http://p:1"}, HOSTS),
        ({"grpc_proxy": "http://p:1", "no_proxy": "1,node1"}, []),
        ({"https_proxy": "http://p:1", "no_proxy": " NODE1 ,"}, ["::1"]),
        # gRPC does not look at the second where the first is set, and knows no sign for all hosts.
        ({"https_proxy": "http://p:1", "no_grpc_proxy": "a.org", "no_proxy": ALL}, HOSTS),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, HOSTS),
    ],
)
def test_which_hosts_grpc_would_reach_through_a_proxy(environ: dict[str, str], through: list[str]) -> None:
    assert sent_to_proxy(environ, HOSTS) == through
    assert sent_to_proxy({**environ, **proxy_exceptions(environ, HOSTS)}, HOSTS) == []


def test_each_host_of_a_cluster_once() -> None:
    cluster = checked_cluster({"worker": ("[::1]:1", "[::1]:2"), "ps": ("node1:1",)})
    assert hosts_of(cluster) == HOSTS
