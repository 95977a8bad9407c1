"""The clients as files: for everybody, cached, and nothing else of the folder."""

from pathlib import Path

import pytest
from django.test import Client

from workflows.approvals import client_files

FOLDER = Path(client_files.__file__).with_name("client")


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("holdpoint.py", "text/x-python; charset=utf-8"),
        ("holdpoint.ts", "text/typescript; charset=utf-8"),
        ("adapters/holdpoint_langgraph.py", "text/x-python; charset=utf-8"),
        ("adapters/holdpoint_vercel_ai.ts", "text/typescript; charset=utf-8"),
    ],
)
def test_a_file_is_served_to_everybody(client: Client, name: str, content_type: str) -> None:
    response = client.get(f"/client/{name}")
    assert response.content == (FOLDER / name).read_bytes()
    assert response["Content-Type"] == content_type
    assert response["Cache-Control"] == "public, max-age=300"
    assert not response.cookies
    unchanged = client.get(f"/client/{name}", headers={"If-None-Match": response["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


@pytest.mark.parametrize(
    "name",
    ["", "__init__.py", "adapters/__init__.py", "../client_files.py", "adapters", "other.py"],
)
def test_nothing_else_is_served(client: Client, name: str) -> None:
    assert client.get(f"/client/{name}").status_code == 404


def test_every_client_and_adapter_is_served() -> None:
    found = {path.name for kind in ("py", "ts") for path in FOLDER.rglob(f"holdpoint*.{kind}")}
    assert {Path(name).name for name in client_files.client_files()} >= found
    assert len(found) == 12


@pytest.mark.parametrize("path", sorted(FOLDER.glob("adapters/holdpoint_*")), ids=lambda p: p.name)
def test_an_adapter_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
