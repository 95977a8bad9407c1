"""The addresses at which an MCP server may be reached, when it is saved and when it is called."""

from __future__ import annotations

import ipaddress

from workflows.common.outbound_http import (
    NetworkFailed,
    NetworkForbidden,
    parse_target,
    system_resolver,
)
from workflows.permissions import deny_list


def allowed_addresses(url: str) -> tuple[str, ...]:
    """Resolve the host of `url` and return its addresses, which the caller connects to.

    The deny list holds for the name and for each address: metadata services, databases, and
    services of this machine that the settings do not name. Blocks while the name is resolved.

    Raises NetworkForbidden if one of them is denied, NetworkFailed for a malformed URL, and OSError
    for a name that cannot be resolved.
    """
    target = parse_target(url)
    if problem := deny_list.host_problem(target.host, target.port):
        raise NetworkForbidden(str(problem))
    found = dict.fromkeys(
        text.partition("%")[0] for text in system_resolver(target.host.strip("[]"), target.port)
    )
    for text in found:
        address = ipaddress.ip_address(text)
        if problem := deny_list.task_address_problem(target.host, target.port, address):
            raise NetworkForbidden(str(problem))
    return tuple(found)


def address_problem(url: str) -> str:
    """Return why no MCP server may be reached at `url`; "" if one may."""
    try:
        allowed_addresses(url)
    except NetworkFailed as error:
        return str(error)
    except OSError:
        return ""  # a server that cannot be resolved now says so when its tools are read
    return ""
