"""Which address a request came from, as limits per address count it."""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest

from workflows import conf

#: An IPv6 customer has at least a /64: limits count the network, not its 2^64 addresses.
_IPV6_PREFIX = 64


def client_address(remote: str, forwarded: str) -> str:
    """The client's address; an IPv6 address becomes the first of its /64 network.

    `remote` is the address of the connection, `forwarded` the X-Forwarded-For header.  Behind a
    proxy (HOLDPOINT_BEHIND_PROXY) the last entry counts, which the proxy wrote; a client may have
    sent entries before it.  Anything that is no address counts as "0.0.0.0".
    """
    text = remote
    if conf.behind_proxy() and forwarded.strip():
        text = forwarded.rpartition(",")[2]
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return "0.0.0.0"  # noqa: S104 - a name for "unknown", nothing listens on it
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = ipaddress.ip_network((address, _IPV6_PREFIX), strict=False)
    return str(network.network_address)


def address_of(request: HttpRequest) -> str:
    """`client_address` of a Django request."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    return client_address(str(request.META.get("REMOTE_ADDR") or ""), forwarded)
