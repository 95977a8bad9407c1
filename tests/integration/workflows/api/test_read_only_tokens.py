"""A token that only reads changes nothing, at any endpoint."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.integration.workflows.api.conftest import BearerFor
from tests.integration.workflows.api.routes import api_routes
from workflows.models import Execution

pytestmark = pytest.mark.django_db

#: Unsafe methods that only read: two searches and a draft of a plan.
READS = {("POST", "tools/search/"), ("POST", "tools/suggest/"), ("POST", "reviews/similar/")}


def test_no_unsafe_method_takes_a_token_that_only_reads(
    bearer: BearerFor, start: Callable[..., Execution]
) -> None:
    """The role that may do most, so that only the scope refuses."""
    execution = start("admin")
    client: APIClient = bearer("admin", ["read"])
    allowed = set()
    for route in api_routes():
        arguments = {
            name: str(execution.pk) if name == "execution_id" else "1"
            for name in _arguments(route.path)
        }
        for method in route.methods:
            if method == "GET":
                continue
            answer = client.generic(
                method, route.filled(arguments), "{}", content_type="application/json"
            )
            if answer.status_code != 403:
                allowed.add((method, route.path.removeprefix("api/v1/"), answer.status_code))
    assert {each[:2] for each in allowed} == READS, allowed


def _arguments(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:]]


def test_a_token_that_only_reads_mutes_nobody(bearer: BearerFor) -> None:
    reads, runs = bearer("reviewer", ["read"]), bearer("reviewer", ["read", "run"])
    url = "/api/v1/notifications/preferences/"
    before = reads.get(url).json()
    quiet = {"shown": [], "mailed": []}
    assert reads.put(url, quiet, format="json").status_code == 403
    assert reads.post("/api/v1/notifications/read/", {"everything": True}).status_code == 403
    assert reads.get(url).json() == before
    assert runs.put(url, quiet, format="json").status_code == 200
