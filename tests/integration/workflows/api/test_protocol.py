"""HTTP rules of the API: problem documents, ETags, request ids, limits."""

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test import Client
from django.urls import path as url_path
from django.utils import timezone
from redis.exceptions import ConnectionError as RedisConnectionError
from rest_framework.test import APIClient

import config.urls
from tests.integration.workflows.api.conftest import plain_plan
from tests.integration.workflows.api.routes import api_routes
from workflows.api import throttling
from workflows.models import Execution, Workflow

pytestmark = pytest.mark.django_db
URL = "/api/v1/executions/"
handler500 = config.urls.handler500


def broken(request):
    raise RuntimeError("a secret detail")


def away(request):
    """A view that asks a database which cannot be reached."""
    unreachable = {**connection.settings_dict, "HOST": "127.0.0.1", "PORT": "1"}
    DatabaseWrapper(unreachable, alias="nowhere").ensure_connection()


urlpatterns = [
    *config.urls.urlpatterns,
    url_path("api/v1/broken/", broken),
    url_path("api/v1/away/", away),
    url_path("away/", away),
]


def check_problem(response, status: int, code: str) -> dict:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert len(response["X-Request-ID"]) >= 8
    body = json.loads(response.content)
    assert (body["status"], body["code"]) == (status, code)
    assert body["title"]
    assert body["detail"]
    return body


@pytest.mark.parametrize(
    "path", ["/api/", "/api/v1/nowhere/", "/api/v2/executions/", "/api/v1/%00"]
)
def test_an_unknown_address_is_a_problem(path) -> None:
    check_problem(Client().get(path), 404, "not_found")
    assert b"<html" in Client().get("/nowhere/").content


def test_every_other_refusal_is_a_problem(bearer, catalogue) -> None:
    client = bearer("operator")
    check_problem(client.delete(URL), 405, "method_not_allowed")
    check_problem(client.get(URL, headers={"Accept": "text/csv"}), 406, "not_acceptable")
    odd = client.generic("POST", URL, b"a=1", content_type="application/x-www-form-urlencoded")
    check_problem(odd, 415, "unsupported_media_type")
    check_problem(APIClient().get(URL), 401, "unauthenticated")
    check_problem(client.get(URL, headers={"Host": "elsewhere.example"}), 400, "malformed")


@pytest.mark.urls("tests.integration.workflows.api.test_protocol")
def test_an_internal_error_reveals_only_the_request_id(caplog) -> None:
    client = Client(raise_request_exception=False)
    response = client.get("/api/v1/broken/", headers={"X-Request-ID": "from-the-proxy"})
    body = check_problem(response, 500, "internal_error")
    assert body["request_id"] == response["X-Request-ID"] == "from-the-proxy"
    assert "secret" not in response.content.decode()


@pytest.mark.urls("tests.integration.workflows.api.test_protocol")
def test_an_unavailable_database_is_503() -> None:
    client = Client(raise_request_exception=False)
    response = client.get("/api/v1/away/")
    check_problem(response, 503, "unavailable")
    page = client.get("/away/")
    assert (page.status_code, page["Retry-After"], response["Retry-After"]) == (503, "2", "2")
    assert "<h1" in page.content.decode()


# --- caches ---------------------------------------------------------------------------------------


def test_api_responses_are_not_cached(bearer, start) -> None:
    execution = start("operator")
    client = bearer("operator")
    one = client.get(f"{URL}{execution.pk}/")
    same = client.get(f"{URL}{execution.pk}/", headers={"If-None-Match": one["ETag"]})
    answers = {
        200: one,
        201: client.post(URL, {"plan": plain_plan()}),
        304: same,
        401: APIClient().get(URL),
        404: client.get("/api/v1/nowhere/"),
        405: client.delete(URL),
        422: client.get(f"{URL}?nonsense=1"),
    }
    assert {code: each.status_code for code, each in answers.items()} == {c: c for c in answers}
    schema = client.get("/api/schema/")
    for each in (*answers.values(), schema):
        assert each["Cache-Control"] == "no-store", each.status_code


# --- ETag -----------------------------------------------------------------------------------------


def test_an_unchanged_execution_is_304(bearer, start) -> None:
    execution = start("operator")
    client = bearer("operator")
    url = f"{URL}{execution.pk}/"
    etag = client.get(url)["ETag"]
    same = client.get(url, headers={"If-None-Match": f'"x", {etag}'})
    assert (same.status_code, same.content, same["ETag"]) == (304, b"", etag)
    client.post(f"{url}commands/", {"kind": "update_state", "updates": {"a": 1}})
    assert client.get(url, headers={"If-None-Match": etag}).status_code == 200


def test_a_workflow_changed_meanwhile_is_not_overwritten(bearer, workflow) -> None:
    client = bearer("admin")
    url = f"/api/v1/workflows/{workflow.name}/"
    etag = client.get(url)["ETag"]
    first = client.patch(url, {"title": "Mine"}, headers={"If-Match": etag})
    assert (first.status_code, first.json()["title"]) == (200, "Mine")
    assert first["ETag"] != etag
    whole = {"name": "echo", "title": "Theirs", "plan": first.json()["plan"]}
    for method, body in (("patch", {"title": "Theirs"}), ("put", whole), ("delete", None)):
        stale = getattr(client, method)(url, body, headers={"If-Match": etag})
        check_problem(stale, 412, "precondition_failed")
    assert Workflow.objects.get().title == "Mine"
    again = {"If-Match": f'"0", {first["ETag"]}'}
    assert client.put(url, whole, headers=again).json()["title"] == "Theirs"
    assert client.patch(url, {}, headers={"If-Match": "*"}).status_code == 200
    bad = client.patch(url, {"title": "x"}, headers={"If-Match": "nonsense"})
    assert check_problem(bad, 422, "invalid")["errors"][0]["path"] == "If-Match"
    odd = client.patch(url, {"nonsense": 1})
    assert check_problem(odd, 422, "invalid")["errors"][0]["path"] == "nonsense"


# --- order ----------------------------------------------------------------------------------------


def test_lists_honour_the_ordering_parameter(bearer, start) -> None:
    made = [str(start("operator", plain_plan()).pk) for _ in range(3)]
    client = bearer("operator")

    def pages(ordering: str) -> list[str]:
        found, url = [], f"{URL}?page_size=2&ordering={ordering}"
        while url:
            page = client.get(url).json()
            found += [each["id"] for each in page["results"]]
            url = page["next"]
        return found

    assert pages("created_at") == pages("updated_at") == made
    assert pages("-created_at") == pages("-updated_at") == made[::-1]
    moment = Execution.objects.get(pk=made[1]).created_at.isoformat().replace("+00:00", "Z")
    since = client.get(f"{URL}?created_from={moment}").json()["results"]
    until = client.get(f"{URL}?created_to={moment}").json()["results"]
    assert [each["id"] for each in since] == [made[2], made[1]]
    assert [each["id"] for each in until] == [made[0]]


def test_active_and_finished_runs_are_one_list_by_last_change(bearer, start) -> None:
    made = [start("operator", plain_plan()).pk for _ in range(7)]
    moved = {pk: timezone.now() - timedelta(hours=place * 3 % 7) for place, pk in enumerate(made)}
    for place, (pk, moment) in enumerate(moved.items()):
        ended = moment if place % 2 else None
        Execution.objects.filter(pk=pk).update(updated_at=moment, finished_at=ended)
    expected = [str(pk) for pk in sorted(made, key=moved.__getitem__)]
    client = bearer("operator")

    def pages(url: str, way: str) -> tuple[list[list[str]], str]:
        """The pages from there on, and the address of the last."""
        found = []
        while True:
            page = client.get(url).json()
            found.append([each["id"] for each in page["results"]])
            if not page[way]:
                return found, url
            url = page[way]

    for ordering, rows in (("updated_at", expected), ("-updated_at", expected[::-1])):
        on, last = pages(f"{URL}?page_size=2&ordering={ordering}", "next")
        assert [row for page in on for row in page] == rows
        back, _ = pages(last, "previous")
        assert [row for page in reversed(back) for row in page] == rows


# --- limits ---------------------------------------------------------------------------------------


def limits(settings, **numbers: int) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, **numbers}


def test_a_throttled_token_gets_retry_after(bearer, settings, monkeypatch) -> None:
    monkeypatch.setattr(throttling.time, "time", lambda: 1_800_000_010.0)
    limits(settings, requests_per_minute=2)
    client, other = bearer("operator"), bearer("operator")
    assert [client.get(URL).status_code for _ in range(3)] == [200, 200, 429]
    refused = client.get(URL)
    check_problem(refused, 429, "throttled")
    assert refused["Retry-After"] == "50"
    assert other.get(URL).status_code == 200
    monkeypatch.setattr(throttling.time, "time", lambda: 1_800_000_061.0)
    assert client.get(URL).status_code == 200


def test_starting_runs_has_its_own_limit(bearer, catalogue, settings, monkeypatch) -> None:
    monkeypatch.setattr(throttling.time, "time", lambda: 1_800_000_010.0)
    limits(settings, starts_per_minute=1)
    client = bearer("operator")
    found = [client.post(URL, {"plan": plain_plan()}).status_code for _ in range(2)]
    assert found == [201, 429]
    assert Execution.objects.count() == 1
    assert client.get(URL).status_code == 200


def test_without_redis_requests_are_not_throttled(bearer, settings, monkeypatch, caplog) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise RedisConnectionError("connection refused")

    limits(settings, requests_per_minute=1)
    monkeypatch.setattr("redis.client.Pipeline.execute", away)
    client = bearer("operator")
    assert [client.get(URL).status_code for _ in range(3)] == [200, 200, 200]
    assert "not counted" in caplog.text


# --- the reference --------------------------------------------------------------------------------


def test_only_redoc_has_inline_styles_and_no_page_inline_scripts(session) -> None:
    client = session("integrator")
    swagger, redoc = client.get("/api/docs/"), client.get("/api/redoc/")
    assert "unsafe" not in swagger["Content-Security-Policy"]
    policy = dict(
        part.strip().split(" ", 1) for part in redoc["Content-Security-Policy"].split(";")
    )
    assert policy["style-src"] == "'self' 'unsafe-inline'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"].startswith("'self'")
    html = redoc.content.decode()
    assert 'spec-url="/api/schema/"' in html
    assert "<style" not in html
    assert not [src for src in re.findall(r'(?:src|href)="([^"]+)"', html) if src[0] != "/"]


def test_every_response_has_its_request_id(bearer) -> None:
    """Each route and method, refused and served: the id that was sent comes back."""
    some = {"execution_id": "1", "name": "x", "hold_id": "1-1"}
    clients = (APIClient(), bearer("admin"))
    for number, route in enumerate(api_routes()):
        names = re.findall(r"{(\w+)}", route.path)
        url = route.filled({name: some.get(name, "1") for name in names})
        for method in route.methods:
            for client in clients:
                sent = f"request-{number:04}-{method}"
                answer = client.generic(method, url, headers={"X-Request-ID": sent})
                assert answer["X-Request-ID"] == sent, (method, url)
