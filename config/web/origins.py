"""Origins (scheme, host, port) of our own pages, for the websocket check and the CSP."""

from collections.abc import Iterable


def origins_of(
    explicit: Iterable[str],
    site_url: str,
    hosts: Iterable[str],
    *,
    scheme: str,
    port: int | None = None,
) -> list[str]:
    """The origins whose pages may open a socket, without duplicates and in a stable order.

    `explicit` wins alone when it is given. Otherwise the site's own address counts, and every
    allowed host (without wildcards) under `scheme` and `port`.
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
    """`https://x` as `wss://x`, `http://x` as `ws://x`, for the CSP.

    The CSP has no form for an IPv6 literal; browsers complain about one on every page.
    """
    return [
        origin.replace("http", "ws", 1)
        for origin in origins
        if origin.startswith("http") and "[" not in origin
    ]
