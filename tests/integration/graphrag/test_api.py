"""The catalogue over REST: pages, search, suggestions, rights."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool
from tests.integration.graphrag.conftest import make_tool

ROOT = "/api/v1/tools/"


class Token:
    """Anything that carries scopes, as an authenticator puts it on ``request.auth``."""

    def __init__(self, *scopes: str) -> None:
        self.scopes = scopes


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_user("someone")


@pytest.fixture
def client(person: User) -> APIClient:
    found = APIClient()
    found.force_authenticate(person)
    return found


def test_pages_hold_every_tool_once(client: APIClient) -> None:
    ingest.upsert_tools([make_tool(f"s.t{at:03}") for at in range(25)])
    seen: list[str] = []
    url: str | None = f"{ROOT}?page_size=10"
    pages = 0
    while url:
        body = client.get(url).json()
        seen += [tool["name"] for tool in body["results"]]
        url, pages = body["next"], pages + 1
    assert (seen, pages) == ([f"s.t{at:03}" for at in range(25)], 3)


def test_filters_narrow_the_list(client: APIClient, files_catalogue: list[ToolRecord]) -> None:
    ingest.set_tool_policy(name="files.read_file", enabled=False)

    def names(query: str) -> list[str]:
        return [tool["name"] for tool in client.get(f"{ROOT}?{query}").json()["results"]]

    assert names("enabled=false") == ["files.read_file"]
    assert "files.write_file" not in names("read_only=true")
    assert len(names("server=files&kind=python")) == 5
    assert names("server=elsewhere") == []
    assert len(names("server=files&ordering=-pagerank")) == 5


def test_one_tool_by_its_name(client: APIClient, files_catalogue: list[ToolRecord]) -> None:
    body = client.get(f"{ROOT}files.read_file/").json()
    assert body["input_schema"]["required"] == ["path"]
    assert body["output_schema"]["properties"].keys() == {"path", "content"}
    assert (body["read_only"], body["enabled"], body["pagerank"]) == (True, True, 1.0)
    assert "embedding" not in body
    assert client.get(f"{ROOT}no.body/").status_code == 404


@pytest.mark.parametrize("method", ["get", "post"])
def test_get_and_post_searches_give_the_same(
    client: APIClient, files_catalogue: list[ToolRecord], method: str
) -> None:
    asked = {"query": "parse xml", "limit": 2, "read_only": True}
    options = {} if method == "get" else {"format": "json"}
    body = getattr(client, method)(f"{ROOT}search/", asked, **options).json()
    assert len(body["results"]) == 2
    best = body["results"][0]
    assert best["name"] == "files.parse_xml"
    assert 0.5 < best["similarity"] <= 1
    assert "'xml'" in best["reasons"][0]
    stored = Tool.objects.get(name=best["name"])
    assert best["input_schema"] == stored.input_schema
    assert best["output_schema"] == stored.output_schema
    assert body["warnings"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "a\x00b"}, "query"),
        ({"query": "x" * 3_000}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": "many"}, "limit"),
        ({"query": "x", "kind": "magic"}, "kind"),
        ({"query": "x", "read_only": "maybe"}, "read_only"),
    ],
)
def test_a_bad_query_names_the_field(client: APIClient, body: dict[str, Any], field: str) -> None:
    response = client.post(f"{ROOT}search/", body, format="json")
    assert response.status_code in (400, 422)
    assert field in response.content.decode()


def test_a_suggestion_has_plan_layers_confidence_and_reasons(
    client: APIClient, files_catalogue: list[ToolRecord]
) -> None:
    body = client.post(
        f"{ROOT}suggest/",
        {"intent": "parse the XML document", "inputs": {"path": "a.xml"}, "limit": 1},
        format="json",
    ).json()
    assert [task["tool"] for task in body["plan"]["tasks"]] == [
        "files.read_file",
        "files.parse_xml",
    ]
    assert body["layers"] == [["read_file"], ["parse_xml"]]
    assert body["confidence"] > 0.45
    assert {reason["task"] for reason in body["reasons"]} == {"read_file", "parse_xml"}
    assert len(body["nearest"]) <= 1
    assert (body["missing_inputs"], body["warnings"]) == ({}, [])


def test_a_suggestion_without_a_plan_is_200(
    client: APIClient, files_catalogue: list[ToolRecord]
) -> None:
    response = client.post(f"{ROOT}suggest/", {"intent": "bake a chocolate cake"}, format="json")
    assert response.status_code == 200
    assert response.json()["plan"] is None
    assert response.json()["warnings"]


@pytest.mark.parametrize("body", [{}, {"intent": ""}, {"intent": "x", "inputs": ["list"]}])
def test_a_bad_intent_is_refused(client: APIClient, body: dict[str, Any]) -> None:
    response = client.post(f"{ROOT}suggest/", body, format="json")
    assert response.status_code in (400, 422)


def test_authentication_and_the_token_scope_are_required(
    person: User, files_catalogue: list[ToolRecord]
) -> None:
    asked = {"intent": "parse xml", "query": "parse xml"}

    def answers(client: APIClient) -> list[int]:
        return [
            client.get(ROOT).status_code,
            client.get(f"{ROOT}search/?query=xml").status_code,
            client.post(f"{ROOT}search/", asked, format="json").status_code,
            client.post(f"{ROOT}suggest/", asked, format="json").status_code,
        ]

    assert all(status in (401, 403) for status in answers(APIClient()))
    for scopes, status in ((("decide",), 403), (("run",), 200), (("read",), 200)):
        client = APIClient()
        client.force_authenticate(person, token=Token(*scopes))
        assert answers(client) == [status] * 4


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_tools_are_read_only_over_rest(
    client: APIClient, files_catalogue: list[ToolRecord], method: str
) -> None:
    response = getattr(client, method)(f"{ROOT}files.read_file/", {}, format="json")
    assert response.status_code in (403, 405)
