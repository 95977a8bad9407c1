"""Check the URLs of webhooks, and the network permission for a request."""

from __future__ import annotations

from workflows import conf
from workflows.common.outbound_http import NetworkFailed, parse_target
from workflows.engine.policy.permissions import PermissionSet, is_private_host, parse_address

_MAX = 2000


def url_problem(url: str) -> str:
    """Return why `url` is not allowed as a webhook URL; "" if it is allowed."""
    try:
        target = parse_target(url)
    except NetworkFailed as error:
        return str(error)
    if len(url) > _MAX or "#" in url:
        return f"the address must be at most {_MAX} characters, without a fragment"
    if _is_allowed_by_settings(target.host, target.resource):
        return ""
    if is_private_host(target.host):
        return f"{target.host} is not a public host; an admin can allow it in the settings"
    if target.scheme != "https":
        return "the address must begin with https://"
    return ""


def request_permissions(url: str) -> PermissionSet:
    """Return the permission for one request: any public host, and hosts that the settings allow."""
    target = parse_target(url)
    hosts = (
        {"*", target.resource} if _is_allowed_by_settings(target.host, target.resource) else {"*"}
    )
    return PermissionSet(hosts=tuple(sorted(hosts)))


def _is_allowed_by_settings(host: str, resource: str) -> bool:
    if resource in conf.webhook_allow_hosts():
        return True
    address = parse_address(host)
    is_local = host == "localhost" or (address is not None and address.is_loopback)
    return is_local and conf.webhook_allow_loopback()
