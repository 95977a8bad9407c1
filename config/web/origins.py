"""Origins (scheme, host, port) of the product's pages, for the WebSocket check and the CSP."""

from collections.abc import Iterable


def origins_of(
    explicit: Iterable[str],
    site_url: str,
    hosts: Iterable[str],
    *,
    scheme: str,
    port: int | None = None,
) -> list[str]:
    """Return the origins whose pages may open a socket, without duplicates and in a stable order.

    Only `explicit` origins if there are any; otherwise the site's address and each allowed host
    without wildcards, with `scheme` and `port`.
    """
    chosen = [origin.rstrip("/") for origin in explicit]
    if not chosen:
        suffix = "" if port is None else f":{port}"
        chosen = [site_url.rstrip("/")] if site_url else []
        chosen += [
            f"{scheme}://{host}{suffix}" for host in hosts if not host.startswith((".", "*"))
        ]
    return list(dict.fromkeys(chosen))


def websocket_origins(origins: Iterable[str]) -> list[str]:
    """Return the ws:// and wss:// forms of the origins, for the CSP.

    Origins with an IPv6 literal are left out because CSP has no syntax for them.
    """
    return [
        origin.replace("http", "ws", 1)
        for origin in origins
        if origin.startswith("http") and "[" not in origin
    ]
