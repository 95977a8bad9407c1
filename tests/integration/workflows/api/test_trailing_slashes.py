"""An address without its final slash: the request is repeated as it was, never as a GET."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.integration.workflows.api.conftest import plain_plan
from tests.integration.workflows.api.routes import api_routes
from workflows.models import Execution

VALUES = {"execution_id": "1", "hold_id": "1-1", "name": "x"}


def test_every_writing_route_of_the_api_is_answered_308() -> None:
    tried = 0
    for route in api_routes():
        names = re.findall(r"{(\w+)}", route.path)
        url = route.filled({name: VALUES.get(name, "1") for name in names})
        for method in set(route.methods) - {"GET"}:
            answer = Client().generic(method, f"{url.removesuffix('/')}?a=%2F", b"{}")
            assert (answer.status_code, answer["Location"]) == (308, f"{url}?a=%2F")
            tried += 1
    assert tried > 20


def plain_pages(resolver: URLResolver, prefix: str = "/") -> list[str]:
    """Addresses without arguments that are no part of the API."""
    found = []
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            found += plain_pages(pattern, path)
        elif isinstance(pattern, URLPattern) and re.fullmatch(r"[\w/-]+/", path):
            found.append(path)
    return [path for path in found if not path.startswith("/api/v1/")]


@pytest.mark.parametrize("debug", [False, True])
def test_every_form_of_a_page_is_answered_308(settings: Any, debug: bool) -> None:
    settings.DEBUG = debug
    pages = plain_pages(get_resolver())
    assert "/login/" in pages
    for path in pages:
        answer = Client().post(path.removesuffix("/"), {"username": "a"})
        assert (answer.status_code, answer["Location"]) == (308, path), path


@pytest.mark.django_db
def test_a_run_is_started_by_a_client_that_follows(bearer: Any, catalogue: None) -> None:
    answer = bearer("operator").post(
        "/api/v1/executions", {"plan": plain_plan()}, format="json", follow=True
    )
    assert answer.status_code == 201, answer.content
    assert Execution.objects.count() == 1
