"""Errors of the database that another request caused."""

import psycopg
import pytest
from django.db import IntegrityError
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
@pytest.mark.parametrize("path", ["/people/add/", "/api/v1/webhooks/"])
def test_a_concurrent_change_is_a_conflict(
    cause: type[psycopg.Error], status: int, path: str, rf: RequestFactory
) -> None:
    try:
        raise IntegrityError from cause()
    except IntegrityError:
        response = server_error(rf.post(path))
    assert response.status_code == status
    assert (b"at the same time" in response.content) == (status == 409)
