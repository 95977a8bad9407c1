"""Errors of the database that another request caused."""

import psycopg
import pytest
import structlog
from django.db import IntegrityError
from django.template.loader import render_to_string
from django.test import RequestFactory

from config.web.error_pages import server_error


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (psycopg.errors.UniqueViolation, 409),
        (psycopg.errors.ForeignKeyViolation, 409),
        (psycopg.errors.CheckViolation, 500),
        (psycopg.errors.RaiseException, 500),
    ],
)
@pytest.mark.parametrize("path", ["/admin/auth/user/add/", "/api/v1/webhooks/"])
def test_a_concurrent_change_is_a_conflict(
    cause: type[psycopg.Error], status: int, path: str, rf: RequestFactory
) -> None:
    with structlog.contextvars.bound_contextvars(request_id="7f3a"):
        try:
            raise IntegrityError from cause()
        except IntegrityError:
            response = server_error(rf.post(path))
    assert response.status_code == status
    assert (b"7f3a" in response.content) == (status == 500)
    assert (b"at the same time" in response.content) == (status == 409)
    # htmx would put the page into a part of another one.
    assert ("HX-Reswap" in response) == (status == 409 and not path.startswith("/api/"))


@pytest.mark.parametrize("name", ["400", "409", "413", "500", "503"])
def test_pages_without_a_request_have_the_chosen_colours(name: str) -> None:
    assert 'src="/static/reviews/js/theme.js"' in render_to_string(f"{name}.html")
