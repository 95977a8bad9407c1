"""Body limits, in the ASGI application and behind a real daphne."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from config.asgi import application
from config.web.body_limits import SMALL, body_limit
from tests.support.ports import free_port
from tests.support.processes import ROOT, end, environment, wait_for

LARGE = 2 * 1024 * 1024
API = "/api/v1/executions/"
PAGES = ("/login/", "/admin/login/", "/logout/", "/language/", "/livez", "/nowhere/")


@pytest.mark.parametrize(
    ("path", "limit"),
    [(path, SMALL) for path in PAGES]
    + [("/plan/", LARGE), ("/workflows/edit/", LARGE), ("/workflows/1/", SMALL)]
    + [("/review/", LARGE), ("/admin/workflows/workflow/1/change/", LARGE), (API, LARGE)]
    + [("/mcp", 1024 * 1024), ("//api/v1/", SMALL), ("http://host/api/v1/", SMALL)],
)
def test_each_path_has_its_limit(path: str, limit: int) -> None:
    assert body_limit(path) == limit


async def sent(
    method: str, path: str, chunks: list[bytes], headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes, int]:
    """Status, headers and body of the application's answer, and how many chunks it took."""
    taken = 0
    answer: list[Any] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        if taken >= len(chunks):
            return {"type": "http.disconnect"}
        taken += 1
        return {
            "type": "http.request",
            "body": chunks[taken - 1],
            "more_body": taken < len(chunks),
        }

    async def send(message: dict[str, Any]) -> None:
        answer.append(message)

    pairs = {"host": "testserver", **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
        "client": ("127.0.0.1", 1),
    }
    await application(scope, receive, send)
    told = {name.decode().lower(): value.decode() for name, value in answer[0]["headers"]}
    body = b"".join(each.get("body", b"") for each in answer[1:])
    return answer[0]["status"], told, body, taken


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_declared_length_over_the_limit_is_refused_unread(method: str) -> None:
    for path in (*PAGES, "/review/", API, "/mcp"):
        length = {"content-length": str(body_limit(path) + 1)}
        status, headers, body, taken = await sent(method, path, [b"x"], length)
        assert (status, taken) == (413, 0), path
        assert headers["cache-control"] == "no-store"
        assert headers["x-request-id"]
        kind = {API: "application/problem+json", "/mcp": "application/json"}
        assert headers["content-type"].startswith(kind.get(path, "text/html")), path
        assert str(body_limit(path)).encode() in body or b"accepts at most" in body


async def test_a_body_without_a_length_is_counted() -> None:
    chunks = [b"x" * 8192] * 100
    chunked = {"transfer-encoding": "chunked"}
    status, _, body, taken = await sent("POST", "/login/", chunks, chunked)
    assert (status, taken) == (413, SMALL // 8192 + 1)
    assert b"too large" in body
    # No header says anything: HTTP/2 has no transfer encoding.
    status, _, body, taken = await sent("POST", API, [b"x" * 1_000_000] * 100)
    assert (status, taken) == (413, 3)
    assert b"too_large" in body


async def test_api_bodies_need_a_content_length() -> None:
    chunked = {"transfer-encoding": "chunked"}
    status, _, body, taken = await sent("POST", API, [b"{}"], chunked)
    assert (status, taken) == (411, 0)
    assert b"length_required" in body
    status, _, body, _ = await sent("POST", API, [b"{}"], {"content-length": "two"})
    assert status == 400
    assert b"malformed" in body


async def test_the_error_page_names_its_language() -> None:
    headers = {"content-length": "999999999", "accept-language": "fr"}
    _, _, body, _ = await sent("POST", "/login/", [], headers)
    assert b'lang="en"' in body


# --- daphne ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a daphne that serves the product."""
    port = free_port()
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)]
    output = tmp_path_factory.mktemp("web") / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, "config.asgi:application"],
            cwd=ROOT, env=environment(), start_new_session=True, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        wait_for(lambda: _alive(port), what=f"daphne answers; {output.read_text()}")
        yield port, psutil.Process(process.pid)
    finally:
        end(process)


def _alive(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/livez", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/login/", "text/html"), (API, "application/problem+json"), ("/mcp", "application/json")],
)
def test_daphne_answers_413_to_a_body_over_the_limit(
    web: tuple[int, psutil.Process], path: str, kind: str
) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{web[0]}", timeout=60) as client:
        answer = client.post(path, content=b"x" * (body_limit(path) + 1))
        assert answer.status_code == 413
        assert answer.headers["content-type"].startswith(kind)
        assert client.get("/livez").status_code == 200


@pytest.mark.parametrize(
    ("path", "status"), [("/login/", 413), ("/review/", 413), (API, 411), ("/mcp", 413)]
)
def test_daphne_refuses_a_body_in_chunks(
    web: tuple[int, psutil.Process], path: str, status: int
) -> None:
    parts = [b"x" * 65_536] * (body_limit(path) // 65_536 + 1)
    answer = httpx.post(f"http://127.0.0.1:{web[0]}{path}", content=iter(parts), timeout=60)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "root", ["/elsewhere", "//evil.example", "/log", "%2F%2Fevil.example", "/review", "é"]
)
def test_clients_cannot_choose_the_root_path(web: tuple[int, psutil.Process], root: str) -> None:
    """daphne takes the root path from a header of any client.

    Addresses would begin with it, and `/review/login/` would be the sign-in page, with the limit of
    a body that forms have.
    """
    with httpx.Client(base_url=f"http://127.0.0.1:{web[0]}", timeout=60) as client:
        for path in (
            "/",
            "/login/",
            "/admin/",
            "/api/v1/executions",
            "/review/login/",
            "/nowhere/",
        ):
            plain = client.get(path)
            answer = client.get(path, headers={b"dAPHNE-rOOT-pATH": root.encode()})
            assert answer.status_code == plain.status_code, path
            assert answer.headers.get("location") == plain.headers.get("location"), path
            assert b"evil.example" not in answer.content
            assert b"/elsewhere" not in answer.content


def test_ordinary_requests_share_a_connection(web: tuple[int, psutil.Process]) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{web[0]}", timeout=60) as client:
        assert client.get("/livez").status_code == 200
        problem = client.post(API, content=b"x" * 100_000)
        assert (problem.status_code, problem.json()["code"]) == (401, "unauthenticated")
        chunks = client.post("/login/", content=iter([b"username=a&", b"password=b"]))
        assert chunks.status_code == 403  # no CSRF token: the form was read
        assert client.get("/livez").status_code == 200
