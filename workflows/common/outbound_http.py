"""An HTTP client that is safe against server-side request forgery; all outbound HTTP uses it.

A request is checked against the hosts of a `PermissionSet`, its name is resolved once, every
address of the answer must be public, and the connection goes to exactly the address that was
checked; Host and SNI keep the name. Redirects are followed one by one, each hop checked the same
way. A private address is reached only when the private host, or the address itself, is granted
with its port.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from workflows.common.http_headers import header_problem
from workflows.common.stored_text import printable
from workflows.engine.policy.permissions import (
    IPAddress,
    PermissionSet,
    canonical_host,
    is_global_address,
    is_private_host,
    parse_address,
)
from workflows.engine.values.reasons import Reason
from workflows.permissions import deny_list

Resolver = Callable[[str, int], Sequence[str]]
"""(host, port) -> the addresses it has, as text. Raises OSError when it has none."""

Headers = tuple[tuple[str, str], ...]

_PORTS: Final = {"http": 80, "https": 443}
_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_OWN_HEADERS: Final = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer",
     "keep-alive", "expect", "proxy-authorization", "proxy-connection", "accept-encoding")
)  # fmt: skip
_SECRET_HEADERS: Final = frozenset(("authorization", "cookie", "x-api-key"))
_CHUNK: Final = 65_536
_POLL_SECONDS: Final = 0.1
#: Characters of what a server says about a response, which people read in logs and lists.
_MAX_SAID: Final = 300


class NetworkDenied(Exception):
    """The permission set does not reach `resource` ("host:port")."""

    def __init__(self, resource: str, message: str) -> None:
        super().__init__(message)
        self.resource = resource


class NetworkFailed(Exception):
    """The request was allowed but failed: bad URL, no response, timeout, too large."""


class NetworkForbidden(NetworkFailed):
    """The address is denied for everyone; no grant can allow it."""


def _denied_everywhere(host: str, port: int, address: IPAddress) -> Reason | None:
    return deny_list.address_problem(address, port)


ConnectionProblem = Callable[[str, int, IPAddress], Reason | None]
"""(host, port, address) -> why nothing may connect there, or None."""


@dataclass(frozen=True)
class NetLimits:
    """Bounds of one `request`, redirects included. Times in seconds, sizes in bytes."""

    connect_seconds: float = 5.0
    total_seconds: float = 10.0
    max_request_bytes: int = 1 << 20
    max_response_bytes: int = 1 << 20
    max_redirects: int = 5


@dataclass(frozen=True)
class Response:
    """A response: status, reason, final URL, headers in order, the full body."""

    status: int
    reason: str
    url: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header called `name`, case-insensitively."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def text(self) -> str:
        """The body as UTF-8, with replacement characters where it is not."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class _Target:
    """One hop: where to connect, and the path to request."""

    scheme: str
    host: str
    port: int
    path: str
    url: str

    @property
    def resource(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


@dataclass
class _Call:
    """A request in progress, with its deadline."""

    method: str
    headers: Headers
    body: bytes | None
    grants: PermissionSet
    limits: NetLimits
    resolver: Resolver
    should_stop: Callable[[], bool]
    problem: ConnectionProblem = _denied_everywhere
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.limits.total_seconds

    def check(self) -> None:
        """Raise NetworkFailed after the deadline or when the caller wants to stop."""
        self.remaining()
        if self.should_stop():
            raise NetworkFailed("stopped")

    def remaining(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise NetworkFailed(f"no answer within {self.limits.total_seconds:g} seconds")
        return left


def system_resolver(host: str, port: int) -> list[str]:
    """Resolve `host` with the resolver of the operating system."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in entries]


def _never() -> bool:
    return False


def request(
    method: str,
    url: str,
    *,
    grants: PermissionSet,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
    limits: NetLimits | None = None,
    resolver: Resolver = system_resolver,
    should_stop: Callable[[], bool] = _never,
    problem: ConnectionProblem = _denied_everywhere,
) -> Response:
    """Send one HTTP request to a host that `grants` covers; return the response, any status.

    Raises NetworkDenied naming the missing "host:port", NetworkForbidden for an address that
    `problem` denies regardless of grants, NetworkFailed for everything else. Blocks for at most
    `limits.total_seconds`; `should_stop` is asked about ten times a second.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    call = _Call(
        method=_checked_method(method),
        headers=_checked_headers(pairs),
        body=body,
        grants=grants,
        limits=limits or NetLimits(),
        resolver=resolver,
        should_stop=should_stop,
        problem=problem,
    )
    if body is not None and len(body) > call.limits.max_request_bytes:
        raise NetworkFailed(f"the request body is over {call.limits.max_request_bytes} bytes")
    return _follow(call, parse_target(url))


def _follow(call: _Call, target: _Target) -> Response:
    for _ in range(call.limits.max_redirects + 1):
        response = _one_hop(call, target)
        location = response.header("location")
        if response.status not in _REDIRECTS or location is None:
            return response
        following = parse_target(urljoin(target.url, location))
        if (target.scheme, following.scheme) == ("https", "http"):
            raise NetworkFailed("redirected from https to http")
        _adapt(call, response.status, same_origin=following.origin == target.origin)
        target = following
    raise NetworkFailed(f"redirected more than {call.limits.max_redirects} times")


def _adapt(call: _Call, status: int, *, same_origin: bool) -> None:
    """Rewrite method and headers for the next hop, as browsers do."""
    if status == 303 or (status in (301, 302) and call.method == "POST"):
        call.method = "HEAD" if call.method == "HEAD" else "GET"
        call.body = None
        call.headers = _without(call.headers, frozenset(("content-type",)))
    if not same_origin:
        call.headers = _without(call.headers, _SECRET_HEADERS)


def _without(headers: Headers, names: frozenset[str]) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in names)


def _checked_method(method: str) -> str:
    upper = method.upper()
    if upper not in _METHODS:
        raise NetworkFailed(f"method {method!r} is not one of {', '.join(sorted(_METHODS))}")
    return upper


def _checked_headers(pairs: Iterable[tuple[str, str]]) -> Headers:
    kept = _without(tuple((str(name), str(value)) for name, value in pairs), _OWN_HEADERS)
    if sum(len(name) + len(value) for name, value in kept) > 16_384:
        raise NetworkFailed("the request headers are over 16384 characters")
    for name, value in kept:
        problem = header_problem(name, value)
        if problem:
            raise NetworkFailed(problem)
    return kept


def parse_target(url: str) -> _Target:
    """Split an http(s) URL into a hop. Raises NetworkFailed for anything else."""
    if len(url) > 8192 or not url.isascii() or not url.isprintable() or " " in url:
        raise NetworkFailed("the URL is too long or holds characters that must be escaped")
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS:
            raise NetworkFailed("the URL must begin with http:// or https://")
        port = parts.port
        if port == 0:
            raise NetworkFailed("bad URL: there is no port 0")
        host = canonical_host(parts.hostname or "")
    except ValueError as error:
        raise NetworkFailed(f"bad URL: {error}") from error
    if parts.username is not None or parts.password is not None or "\\" in parts.netloc:
        raise NetworkFailed("the URL may not carry a user or a password")
    return _Target(parts.scheme, host, port or _PORTS[parts.scheme], _path(parts), url)


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


# -- which address ---------------------------------------------------------------------------


def _address_for(call: _Call, target: _Target) -> IPAddress:
    """Return the address to connect to; every resolved address must be allowed.

    A name is resolved only if it is granted, because a DNS query can already leak data.
    """
    literal = parse_address(target.host)
    _check_denied(call, target, () if literal is None else (literal,))
    if not call.grants.allows("net", target.resource):
        raise NetworkDenied(target.resource, f"{target.resource} is not among the granted hosts")
    addresses = [literal] if literal is not None else _resolve(call, target)
    _check_denied(call, target, addresses)
    for address in addresses:
        if not _may_connect(call.grants, target, address):
            raise NetworkDenied(
                _resource_of(address, target.port),
                f"{target.host} leads to {address}, which is not a public address",
            )
    return addresses[0]


def _check_denied(call: _Call, target: _Target, addresses: Iterable[IPAddress]) -> None:
    """Raise NetworkForbidden when one of `addresses`, or the name itself, is denied."""
    for address in addresses:
        problem = call.problem(target.host, target.port, address)
        if problem:
            raise NetworkForbidden(f"{target.resource}: {problem}")
    if deny_list.is_metadata_name(target.host):
        raise NetworkForbidden(str(deny_list.host_problem(target.host, target.port)))


def _may_connect(grants: PermissionSet, target: _Target, address: IPAddress) -> bool:
    if is_global_address(address):
        return True
    if grants.allows("net", _resource_of(address, target.port)):
        return True
    if target.host == "localhost" or target.host.endswith(".localhost"):
        return address.is_loopback
    # A private name was granted with its port. Addresses that are never another host's service
    # (cloud metadata, this machine) still need their own grant.
    reserved = address.is_link_local or address.is_loopback or address.is_unspecified
    return is_private_host(target.host) and not (reserved or address.is_multicast)


def _resource_of(address: IPAddress, port: int) -> str:
    return f"{canonical_host(str(address))}:{port}"


def _resolve(call: _Call, target: _Target) -> list[IPAddress]:
    """Ask the resolver once, no longer than the connect limit (its own timeout may be minutes)."""
    answers: list[str] = []
    errors: list[OSError] = []

    def ask() -> None:
        try:
            answers.extend(call.resolver(target.host, target.port))
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=ask, name="resolve", daemon=True)
    thread.start()
    thread.join(min(call.limits.connect_seconds, call.remaining()))
    if thread.is_alive() or errors or not answers:
        raise NetworkFailed(f"{target.host} could not be resolved")
    return [ipaddress.ip_address(answer.partition("%")[0]) for answer in dict.fromkeys(answers)]


# -- one hop ---------------------------------------------------------------------------------


# One per process, never invalidated: new CA certificates take a restart.
@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _secured(target: _Target, raw: socket.socket) -> socket.socket:
    if target.scheme == "http":
        return raw
    return _tls().wrap_socket(raw, server_hostname=target.host.strip("[]"))


class _Watchdog:
    """Shut the socket down after the deadline or when the caller wants to stop.

    A socket timeout bounds only a single read, so a peer that sends one byte at a time exceeds it.
    """

    def __init__(self, call: _Call, connection: socket.socket) -> None:
        self._call, self._handle = call, connection.dup()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="net-guard", daemon=True)

    def _watch(self) -> None:
        while not self._finished.wait(_POLL_SECONDS):
            if self._call.should_stop() or time.monotonic() > self._call.deadline:
                with contextlib.suppress(OSError):
                    self._handle.shutdown(socket.SHUT_RDWR)
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()
        self._handle.close()


def _one_hop(call: _Call, target: _Target) -> Response:
    address = _address_for(call, target)
    try:
        timeout = min(call.limits.connect_seconds, call.remaining())
        raw = socket.create_connection((str(address), target.port), timeout=timeout)
        with raw, _Watchdog(call, raw), _secured(target, raw) as connection:
            return _exchange(call, target, connection)
    except (OSError, http.client.HTTPException, ValueError) as error:
        call.check()
        said = printable(str(error), _MAX_SAID) or type(error).__name__
        raise NetworkFailed(f"{target.resource}: {said}") from error


def _exchange(call: _Call, target: _Target, connection: socket.socket) -> Response:
    connection.settimeout(call.remaining())
    client = http.client.HTTPConnection(target.host.strip("[]"), target.port)
    client.sock = connection
    client.putrequest(call.method, target.path, skip_host=True, skip_accept_encoding=True)
    default = target.port == _PORTS[target.scheme]
    client.putheader("Host", target.host if default else target.resource)
    client.putheader("Connection", "close")
    for name, value in call.headers:
        client.putheader(name, value)
    if call.body is not None or call.method in ("POST", "PUT", "PATCH"):
        client.putheader("Content-Length", str(len(call.body or b"")))
    client.endheaders(call.body)
    with client.getresponse() as answer:
        body = _read_body(call, answer)
        reason, headers = printable(answer.reason, _MAX_SAID), tuple(answer.getheaders())
        return Response(answer.status, reason, target.url, headers, body)


def _read_body(call: _Call, answer: http.client.HTTPResponse) -> bytes:
    body = bytearray()
    while chunk := answer.read1(_CHUNK):
        body += chunk
        if len(body) > call.limits.max_response_bytes:
            raise NetworkFailed(f"the response is over {call.limits.max_response_bytes} bytes")
        call.remaining()
    call.check()
    if answer.length:
        raise http.client.IncompleteRead(bytes(body), answer.length)
    return bytes(body)
