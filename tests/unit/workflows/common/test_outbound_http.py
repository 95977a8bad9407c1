"""The HTTP client against a real server: grants, redirects, rebinding, bounds."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.http_server import Server, running
from workflows.common.outbound_http import (
    NetLimits,
    NetworkDenied,
    NetworkFailed,
    NetworkForbidden,
    Response,
    request,
)
from workflows.engine.policy.permissions import PermissionSet

#: Seconds within which a limit of a second or less ends a request, also on a busy machine.
SOON = 8
QUICK = NetLimits(connect_seconds=1, total_seconds=1, max_response_bytes=100_000)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def resolver_for(*answers: str) -> Any:
    def resolve(host: str, port: int) -> Sequence[str]:
        return answers

    return resolve


def get(url: str, *hosts: str, method: str = "GET", **options: Any) -> Response:
    options.setdefault("limits", QUICK)
    return request(method, url, grants=PermissionSet(hosts=hosts), **options)


def test_a_granted_host_and_port_answers(server: Server) -> None:
    url = f"http://127.0.0.1:{server.port}/echo?a=b#part"
    answer = get(url, f"127.0.0.1:{server.port}", headers={"X-Asked": "yes"})
    told = json.loads(answer.body)
    assert (answer.status, answer.reason, answer.url) == (200, "OK", url)
    assert answer.header("content-TYPE") == "application/json"
    assert told["path"] == "/echo?a=b"
    assert told["headers"]["Host"] == f"127.0.0.1:{server.port}"
    assert told["headers"]["X-Asked"] == "yes"


def test_a_body_is_sent(server: Server) -> None:
    url = f"http://localhost:{server.port}/echo"
    answer = get(url, f"localhost:{server.port}", method="post", body=b"{}")
    assert json.loads(answer.text())["body"] == "{}"
    assert json.loads(answer.text())["method"] == "POST"


def test_every_status_is_a_response(server: Server) -> None:
    assert get(f"http://localhost:{server.port}/nowhere", f"localhost:{server.port}").status == 404


@contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """A port of the loopback that gives each request this answer."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_what_a_server_says_has_no_control_characters() -> None:
    with saying(b"HTTP/1.1 503 No\0 \x1b[1mway\x85\r\nContent-Length: 0\r\n\r\n") as port:
        answer = get(f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}")
    assert (answer.status, answer.reason) == (503, "No [1mway")
    garbage = b"\0SSH-2.0\x1b[1m" + b"x" * 5000 + b"\r\n"
    with saying(garbage) as port, pytest.raises(NetworkFailed) as caught:
        get(f"http://127.0.0.1:{port}/", f"127.0.0.1:{port}")
    assert str(caught.value).startswith(f"127.0.0.1:{port}: SSH-2.0[1mxxx")
    assert len(str(caught.value)) < 400


def test_the_host_header_is_the_clients_own(server: Server) -> None:
    headers = {"Host": "evil.example", "Content-Length": "9", "Transfer-Encoding": "chunked"}
    answer = get(f"http://localhost:{server.port}/", f"localhost:{server.port}", headers=headers)
    told = json.loads(answer.body)["headers"]
    assert told["Host"] == f"localhost:{server.port}"
    assert "Transfer-Encoding" not in told
    assert "Content-Length" not in told


@pytest.mark.parametrize("granted", [(), ("*",), ("localhost:1",), ("example.com",)])
def test_a_host_that_is_not_granted_is_named(server: Server, granted: tuple[str, ...]) -> None:
    before = list(server.seen)
    with pytest.raises(NetworkDenied) as caught:
        get(f"http://localhost:{server.port}/", *granted)
    assert caught.value.resource == f"localhost:{server.port}"
    assert server.seen == before


def test_a_public_name_of_a_private_address_is_refused(server: Server) -> None:
    url = f"http://rebind.example:{server.port}/"
    for answers in (("127.0.0.1",), ("93.184.216.34", "127.0.0.1"), ("::ffff:127.0.0.1",)):
        with pytest.raises(NetworkDenied) as caught:
            get(url, f"rebind.example:{server.port}", "*", resolver=resolver_for(*answers))
        assert caught.value.resource.endswith(f":{server.port}")
        assert "127.0.0.1" in caught.value.resource or "::ffff" in caught.value.resource


def test_a_public_name_of_a_private_address_needs_both_grants(server: Server) -> None:
    hosts = (f"rebind.example:{server.port}", f"127.0.0.1:{server.port}")
    answer = get(
        f"http://rebind.example:{server.port}/echo", *hosts, resolver=resolver_for("127.0.0.1")
    )
    assert json.loads(answer.body)["headers"]["Host"] == f"rebind.example:{server.port}"


def test_the_name_is_resolved_once_and_that_address_is_used(server: Server) -> None:
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.255.255.1"]

    get(f"http://localhost:{server.port}/echo", f"localhost:{server.port}", resolver=rebinding)
    assert asked == ["localhost"]


def test_a_private_name_does_not_reach_this_machine() -> None:
    with pytest.raises(NetworkDenied) as caught:
        get("http://db.internal:80/", "db.internal:80", resolver=resolver_for("127.0.0.1"))
    assert caught.value.resource == "127.0.0.1:80"


DEVICES = [
    "169.254.169.254",
    "169.254.0.1",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
    "::",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
]


@pytest.mark.parametrize("answer", DEVICES)
@pytest.mark.parametrize("position", [0, 1])
def test_device_and_metadata_addresses_are_unreachable(answer: str, position: int) -> None:
    answers = ["93.184.215.14"]
    answers.insert(position, answer)
    literal = f"[{answer}]:80" if ":" in answer else f"{answer}:80"
    for host in ("db.internal", "public.example"):
        with pytest.raises(NetworkForbidden, match="metadata address"):
            get(f"http://{host}:80/", f"{host}:80", literal, resolver=resolver_for(*answers))


@pytest.mark.parametrize("granted", [True, False])
@pytest.mark.parametrize("answer", DEVICES)
def test_a_denied_address_is_refused_whether_it_is_granted_or_not(
    answer: str, *, granted: bool
) -> None:
    literal = f"[{answer}]:80" if ":" in answer else f"{answer}:80"
    with pytest.raises(NetworkForbidden, match="metadata address"):
        get(f"http://{literal}/latest/meta-data/", *([literal] if granted else []))


@pytest.mark.parametrize(
    "spelling",
    ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.169.254"],
)
def test_unusual_address_spellings_are_refused(spelling: str) -> None:
    """The system's resolver would take these for 169.254.169.254; the client takes none."""
    with pytest.raises(NetworkFailed):
        get(f"http://{spelling}/", "*")


@pytest.mark.parametrize("name", ["metadata.google.internal", "METADATA.google.internal."])
def test_a_metadata_name_is_refused_before_it_is_resolved(name: str) -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14"]

    with pytest.raises(NetworkForbidden, match="metadata service"):
        get(f"http://{name}/", "metadata.google.internal:80", resolver=resolver)
    assert asked == []


def test_a_name_that_is_not_granted_is_not_resolved() -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14"]

    with pytest.raises(NetworkDenied):
        get("http://secret-in-a-name.example/", resolver=resolver)
    assert asked == []


def test_localhost_is_this_machine_only() -> None:
    with pytest.raises(NetworkDenied):
        get("http://localhost:80/", "localhost:80", resolver=resolver_for("10.0.0.1"))


def test_a_redirect_is_followed_where_it_is_granted(server: Server) -> None:
    url = f"http://localhost:{server.port}/redirect?to=/echo"
    answer = get(url, f"localhost:{server.port}")
    assert answer.url == f"http://localhost:{server.port}/echo"
    assert answer.status == 200


def test_a_redirect_to_another_host_needs_its_own_grant(server: Server) -> None:
    other = f"127.0.0.1:{server.port}"
    url = f"http://localhost:{server.port}/redirect?to=http://{other}/echo"
    with pytest.raises(NetworkDenied) as caught:
        get(url, f"localhost:{server.port}")
    assert caught.value.resource == other


def test_secrets_do_not_cross_to_another_host(server: Server) -> None:
    hosts = (f"localhost:{server.port}", f"127.0.0.1:{server.port}")
    url = f"http://{hosts[0]}/redirect?to=http://{hosts[1]}/echo"
    answer = get(url, *hosts, headers={"Authorization": "Bearer s", "Cookie": "c", "X-Kept": "k"})
    told = json.loads(answer.body)["headers"]
    assert "Authorization" not in told
    assert "Cookie" not in told
    assert told["X-Kept"] == "k"


@pytest.mark.parametrize(
    ("status", "method", "body"), [(302, "GET", ""), (303, "GET", ""), (307, "POST", "data")]
)
def test_methods_after_a_redirect(server: Server, status: int, method: str, body: str) -> None:
    url = f"http://localhost:{server.port}/redirect?to=/echo&status={status}"
    answer = get(url, f"localhost:{server.port}", method="POST", body=b"data")
    told = json.loads(answer.body)
    assert (told["method"], told["body"]) == (method, body)


def test_redirects_end(server: Server) -> None:
    before = len(server.seen)
    limits = NetLimits(max_redirects=2)
    with pytest.raises(NetworkFailed, match="more than 2 times"):
        get(f"http://localhost:{server.port}/loop", f"localhost:{server.port}", limits=limits)
    assert len(server.seen) - before == 3


@pytest.mark.parametrize("page", ["drip", "silent", "endless", "large?bytes=200000"])
def test_slow_and_large_responses_are_aborted(server: Server, page: str) -> None:
    started = time.monotonic()
    with pytest.raises(NetworkFailed):
        get(f"http://localhost:{server.port}/{page}", f"localhost:{server.port}")
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize("page", ["short", "garbage"])
def test_broken_responses_fail(server: Server, page: str) -> None:
    with pytest.raises(NetworkFailed):
        get(f"http://localhost:{server.port}/{page}", f"localhost:{server.port}")


def test_a_request_is_stopped(server: Server) -> None:
    started = time.monotonic()
    with pytest.raises(NetworkFailed, match="stopped"):
        get(
            f"http://localhost:{server.port}/silent",
            f"localhost:{server.port}",
            limits=NetLimits(total_seconds=15),
            should_stop=lambda: time.monotonic() - started > 0.2,
        )
    assert time.monotonic() - started < SOON


def test_a_hanging_resolver_times_out() -> None:
    started = time.monotonic()
    released = threading.Event()

    def hanging(host: str, port: int) -> Sequence[str]:
        released.wait(15)
        return []

    with pytest.raises(NetworkFailed, match="resolved"):
        get("http://slow.example/", "*", limits=NetLimits(connect_seconds=0.2), resolver=hanging)
    assert time.monotonic() - started < SOON
    released.set()


def test_a_closed_port_fails() -> None:
    with pytest.raises(NetworkFailed, match="localhost:1"):
        get("http://localhost:1/", "localhost:1")


def test_tls_checks_the_certificate_for_the_name(server: Server) -> None:
    with pytest.raises(NetworkFailed):
        get(f"https://localhost:{server.port}/", f"localhost:{server.port}")


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com/", "file:///etc/passwd", "http://", "//example.com", "http://u:p@example.com/",
     "http://example.com:0x50/", "http://example.com:99999/", "http://exa mple.com/",
     "http://a.com/\r\nX: y",
     "http://2130706433/", "http://0x7f000001/", "http://[::1%25lo]/", "http://a.com\\@b.com/", "gopher://a",
     "http://" + "a" * 9000],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(NetworkFailed):
        get(url, "*")


@pytest.mark.parametrize(
    "options",
    [
        {"method": "CONNECT"},
        {"method": "GET\r\n"},
        {"headers": {"A": "b\r\nC: d"}},
        {"headers": {"A": "\u00e9"}},
        {"headers": {"A": "b" * 20_000}},
        # Each would get past the filter of names that this client sends itself.
        {"headers": {"Host ": "evil.example"}},
        {"headers": {"\tContent-Length": "9"}},
        {"headers": {"Transfer-Encoding\x0b": "chunked"}},
        {"headers": {"Authorization: Basic x\r\nA": "b"}},
        {"headers": {"": "b"}},
        {"headers": {"A": "b\x00c"}},
        {"body": b"x" * (2 << 20)},
    ],
)
def test_requests_that_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(NetworkFailed):
        get("http://example.com/", "*", resolver=resolver_for("192.0.2.1"), **options)


def test_a_redirect_from_https_to_http_is_refused() -> None:
    from workflows.common import outbound_http

    call = outbound_http._Call(
        "GET", (), None, PermissionSet(), QUICK, resolver_for(), lambda: False
    )
    answers = [Response(302, "", "https://a.example/", (("Location", "http://a.example/"),), b"")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbound_http, "_one_hop", lambda *_: answers.pop())
        with pytest.raises(NetworkFailed, match="https to http"):
            outbound_http._follow(call, outbound_http.parse_target("https://a.example/"))
