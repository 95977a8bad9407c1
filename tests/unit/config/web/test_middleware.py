"""Headers and addresses that every answer and every page rely on."""

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from config.observability.health import livez
from config.web.middleware import RequestContextMiddleware


def answer(request: HttpRequest) -> HttpResponse:
    return RequestContextMiddleware(lambda _: HttpResponse("x"))(request)


def test_a_plain_request_id_is_accepted() -> None:
    request = RequestFactory().get("/", headers={"X-Request-ID": "proxy-0123456789"})
    assert answer(request)["X-Request-ID"] == "proxy-0123456789"


@pytest.mark.parametrize("sent", ["", "short", "x" * 65, "line\nbreak-1234", "<script>alert"])
def test_an_odd_request_id_is_replaced(sent: str) -> None:
    request = RequestFactory().get("/")
    request.META["HTTP_X_REQUEST_ID"] = sent
    assert len(answer(request)["X-Request-ID"]) == 32


def test_livez_needs_no_database() -> None:
    response = livez(RequestFactory().get("/livez"))
    assert (response.status_code, response.content) == (200, b"ok")
    assert "no-cache" in response["Cache-Control"]


def test_security_headers() -> None:
    response = Client().get("/livez")
    policy = response["Content-Security-Policy"]
    assert "script-src 'self';" in f"{policy};"
    assert "unsafe" not in policy
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in response["Permissions-Policy"]
