"""The official MCP client connects with nothing but the address of the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from bs4 import BeautifulSoup
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.integration.config.auth.site import Site, running_site

CALLBACK = "http://127.0.0.1:4711/callback"
PERSON = """
from django.contrib.auth.models import Group, User
ann = User.objects.create_user("ann", password="a long pass phrase")
ann.groups.add(Group.objects.get_or_create(name="operator")[0])
"""


class Memory(TokenStorage):
    """Keeps what the client has received."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Signs in and consents, as the browser that the client opens."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        #: Where the browser goes after the consent.
        self.callback = ""

    async def consent(self, address: str) -> None:
        page = await self._http.get(address)  # the sign-in page
        form = {"username": "ann", "password": "a long pass phrase", "next": _path(address)}
        page = await self._http.post("/login/", data=_fields(page) | form)
        page = await self._http.post(_path(address), data=_fields(page) | {"allow": "true"})
        link = BeautifulSoup(page.text, "html.parser").select_one("main a[rel=noreferrer]")
        assert link is not None, page.text
        self.callback = str(link["href"])

    async def answer(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.callback).query)
        values = {name: texts[0] for name, texts in query.items()}
        return AuthorizationCodeResult(
            code=values["code"], state=values["state"], iss=values["iss"]
        )


def _path(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"


def _fields(page: Any) -> dict[str, Any]:
    """The hidden fields and ticked boxes of the page's form."""
    fields: dict[str, Any] = {}
    for box in BeautifulSoup(page.text, "html.parser").select("main form input[name]"):
        if box.get("type") == "checkbox":
            if box.has_attr("checked"):
                fields.setdefault(str(box["name"]), []).append(str(box["value"]))
        else:
            fields[str(box["name"])] = str(box.get("value", ""))
    return fields


async def tools_seen_by_a_new_client(site: Site, storage: Memory) -> list[str]:
    async with httpx2.AsyncClient(base_url=site.url, follow_redirects=True, timeout=60) as browser:
        person = Person(browser)
        provider = OAuthClientProvider(
            server_url=f"{site.url}/mcp",
            client_metadata=OAuthClientMetadata(client_name="Desk agent", redirect_uris=[CALLBACK]),
            storage=storage,
            redirect_handler=person.consent,
            callback_handler=person.answer,
        )
        async with (
            httpx2.AsyncClient(auth=provider, timeout=60) as http,
            Client(streamable_http_client(f"{site.url}/mcp", http_client=http)) as client,
        ):
            return [tool.name for tool in (await client.list_tools()).tools]


def test_the_official_client_registers_asks_for_consent_and_lists_tools(
    tmp_path: Path, django_db_setup: None
) -> None:
    storage = Memory()
    with running_site(tmp_path) as site:
        made = site.manage("shell", "-c", PERSON)
        assert made.returncode == 0, made.stderr
        assert "execute" in asyncio.run(tools_seen_by_a_new_client(site, storage))
        assert storage.tokens is not None
        assert set((storage.tokens.scope or "").split()) == {"ask", "read", "run"}
        assert storage.tokens.refresh_token
        stored = site.rows("SELECT name, scopes FROM workflows_apitoken")
        assert [(name, set(scopes)) for name, scopes in stored] == [
            ("Desk agent", {"ask", "read", "run"})
        ]
