"""The client address of a request, for limits per address."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from django.http import HttpRequest

from workflows import conf

#: An IPv6 customer has at least a /64 network, so limits count the network.
_IPV6_PREFIX = 64
#: Stands for all clients whose address is unknown.
UNKNOWN: Final = "0.0.0.0"  # noqa: S104 - nothing listens on it
#: `203.0.113.5:51234` or `[2001:db8::1]:443`: some proxies add the port.
_WITH_PORT = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::[0-9]{1,5})?")


def client_address(remote: str, forwarded: str) -> str:
    """Return the client's address; an IPv6 address becomes the first of its /64 network.

    `remote` is the address of the connection, `forwarded` the X-Forwarded-For header.  Behind a
    proxy (HOLDPOINT_BEHIND_PROXY) the last entry of the header is used, because the proxy wrote it;
    earlier entries may come from the client. A port is ignored. Invalid text becomes UNKNOWN.
    """
    text = remote
    if conf.behind_proxy() and forwarded.strip():
        text = forwarded.rpartition(",")[2]
    text = text.strip()
    if match := _WITH_PORT.fullmatch(text):
        text = match[1] or match[2] or ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return UNKNOWN
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
